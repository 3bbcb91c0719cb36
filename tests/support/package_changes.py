"""The changes of a package that write nothing yet, made at random in both libraries."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from support.package_edits import (
    PATHS,
    assets,
    component_bodies,
    components,
    namespaces,
    variant_bodies,
    variants,
)
from support.package_manifests import metadata
from support.package_pair import Pair

from sealcar import modelpackage


class Changes(Pair):
    """Both libraries get the same changes."""

    @rule()
    def look_only(self) -> None:
        """There is always something to do."""

    @precondition(lambda self: not self.over)
    @rule(texts=st.tuples(*[st.sampled_from([None, "", "a", "b"])] * 3))
    def set_metadata(self, texts: tuple[str | None, str | None, str | None]) -> None:
        name, version, description = texts
        self.both(
            lambda: self.native.set_metadata(name, version, description),
            lambda: self.ours.set_metadata(name=name, version=version, description=description),
        )

    @precondition(lambda self: not self.over)
    @rule(layout=st.sampled_from(["portable", "installed", "portable", "other", ""]))
    def set_layout(self, layout: str) -> None:
        self.both(lambda: self.native.set_layout(layout), lambda: self.ours.set_layout(layout))

    @precondition(lambda self: not self.over)
    @rule(value=metadata, component=st.one_of(st.none(), components), clear=st.booleans())
    def set_additional_metadata(self, value: Any, component: str | None, clear: bool) -> None:  # noqa: ANN401, FBT001  (drawn)
        scope = "component" if component else "manifest"
        self.both(
            lambda: self.native.set_additional_metadata_json(
                scope, component, None, None if clear else json.dumps(value)
            ),
            lambda: (
                self.ours.remove_additional_metadata(component=component)
                if clear
                else self.ours.set_additional_metadata(value, component=component)
            ),
        )

    @precondition(lambda self: not self.over)
    @rule(value=metadata, component=components, variant=variants)
    def set_variant_metadata(self, value: Any, component: str, variant: str) -> None:  # noqa: ANN401  (drawn)
        outcome = self.both(
            lambda: self.native.set_additional_metadata_json(
                "variant", component, variant, json.dumps(value)
            ),
            lambda: self.ours.set_additional_metadata(value, component=component, variant=variant),
        )
        if outcome == "None":
            self.both_say_the_same()
            self.part("variant_metadata")

    @precondition(lambda self: not self.over)
    @rule(name=components, body=component_bodies)
    def set_component(self, name: str, body: dict[str, Any]) -> None:
        self.both(
            lambda: self.native.set_component_inline(name, json.dumps(body)),
            lambda: self.ours.set_component(name, body),
        )

    @precondition(lambda self: not self.over)
    @rule(name=components, path=st.sampled_from(PATHS))
    def set_component_file(self, name: str, path: str) -> None:
        self.both(
            lambda: self.native.set_component_external(name, path),
            lambda: self.ours.set_component_file(name, path),
        )

    @precondition(lambda self: not self.over)
    @rule(name=components)
    def remove_component(self, name: str) -> None:
        self.both(
            lambda: self.native.remove_component(name), lambda: self.ours.remove_component(name)
        )

    @precondition(lambda self: not self.over)
    @rule(component=components, variant=variants, body=variant_bodies)
    def set_variant(self, component: str, variant: str, body: dict[str, Any]) -> None:
        self.both(
            lambda: self.native.set_variant(component, variant, json.dumps(body)),
            lambda: self.ours.set_variant(component, variant, body),
        )

    @precondition(lambda self: not self.over)
    @rule(component=components, variant=variants)
    def remove_variant(self, component: str, variant: str) -> None:
        self.both(
            lambda: self.native.remove_variant(component, variant),
            lambda: self.ours.remove_variant(component, variant),
        )

    @precondition(lambda self: not self.over)
    @rule(
        component=components,
        variant=variants,
        namespace=namespaces,
        value=st.sampled_from([{}, {"model_file": "m"}, [], None, 1]),
    )
    def set_executor_info(self, component: str, variant: str, namespace: str, value: Any) -> None:  # noqa: ANN401  (drawn)
        self.both(
            lambda: self.native.set_variant_executor_info_inline(
                component, variant, namespace, json.dumps(value)
            ),
            lambda: self.ours.set_executor_info(component, variant, namespace, value),
        )

    @precondition(lambda self: not self.over)
    @rule(component=components, variant=variants, namespace=namespaces, path=st.sampled_from(PATHS))
    def set_executor_info_file(
        self, component: str, variant: str, namespace: str, path: str
    ) -> None:
        before = self.info()[1]
        outcome = self.both(
            lambda: self.native.set_variant_executor_info_external(
                component, variant, namespace, path
            ),
            lambda: self.ours.set_executor_info_file(component, variant, namespace, path),
        )
        if outcome == "ValueError":
            assert self.info()[1] == before
            body = self.ours.package.components[component].body
            if self.native.get_component_json(component) != modelpackage.compact(dict(body)):
                self.part("failed_setter")

    @precondition(lambda self: not self.over)
    @rule(component=components, variant=variants, namespace=namespaces)
    def remove_executor_info(self, component: str, variant: str, namespace: str) -> None:
        self.both(
            lambda: self.native.remove_variant_executor_info(component, variant, namespace),
            lambda: self.ours.remove_executor_info(component, variant, namespace),
        )

    @precondition(lambda self: not self.over)
    @rule(
        name=assets,
        expected=st.sampled_from([None, None, None, "sha256:" + "0" * 64, "x"]),
        copy=st.sampled_from([True, True, False]),
    )
    def add_shared_asset(self, name: str, expected: str | None, copy: bool) -> None:  # noqa: FBT001  (drawn)
        source = str(self.base / name)
        self.both(
            lambda: self.native.add_shared_asset(source, expected, copy),
            lambda: self.ours.add_shared_asset(source, expected=expected, copy=copy),
        )

    @precondition(lambda self: not self.over)
    @rule(number=st.integers(0, 3))
    def remove_shared_asset(self, number: int) -> None:
        uris = [*self.ours.package.shared_assets, "sha256:" + "0" * 64, "junk"]
        uri = uris[min(number, len(uris) - 1)]
        self.both(
            lambda: self.native.remove_shared_asset(uri),
            lambda: self.ours.remove_shared_asset(uri),
        )

    @precondition(lambda self: not self.over)
    @rule(component=components, variant=variants)
    def compare_bodies(self, component: str, variant: str) -> None:
        def body() -> str:
            found = self.ours.package.components.get(component)
            if found is None:
                raise modelpackage.MissingError("no component")
            return modelpackage.compact(dict(found.body))

        def variant_body() -> str:
            found = self.ours.package.components.get(component)
            if found is None or variant not in found.variants:
                raise modelpackage.MissingError("no variant")
            return modelpackage.compact(dict(found.variants[variant].body))

        self.both(lambda: self.native.get_component_json(component), body)
        self.both(lambda: self.native.get_variant_json(component, variant), variant_body)
