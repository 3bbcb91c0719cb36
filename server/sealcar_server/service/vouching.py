"""Makes of a manifest that was edited in the store one that can be sealed again.

What an edit may change: everything that an import may say, as far as it is about variants whose
payloads are sealed. What it can't change is which payloads there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError, RequestError
from sealcar.transfer import references as names_in
from sealcar_server.sealing.agreement import place_of_variant
from sealcar_server.service import manifest as manifests
from sealcar_server.service import references
from sealcar_server.service.composing import NAMESPACE

if TYPE_CHECKING:
    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordVariant, SealRecord
    from sealcar_server.service.manifest import Object


def vouched(edited: Object, sealed: SealRecord) -> Object:
    """Return the manifest as it will be sealed.

    Args:
        edited: as it lies in the store.
        sealed: the record of the payloads that are there.

    Raises:
        InvalidPackageError: it breaks a rule of imports, or a variant names what isn't there.
    """
    metadata = _object(edited.get("additional_metadata", {}))
    root = {
        **edited,
        "additional_metadata": _without(metadata, NAMESPACE),
        "components": _components(edited, sealed),
    }
    made = manifests.settled(manifests.checked(root), {one.uri: one.uri for one in sealed.assets})
    kept = {*manifests.scopes(made)}
    for variant in sealed.variants:
        scope = (variant.component, variant.variant)
        if scope in kept:
            _check_model(manifests.info(made, *scope), variant, sealed)
    return made


def _components(edited: Object, sealed: SealRecord) -> Object:
    """Return the components without what nobody sealed, and without marks: those are made anew."""
    known = {item.component for item in sealed.components}
    scopes = {(item.component, item.variant) for item in sealed.variants}
    components: Object = {}
    for component, value in _object(edited.get("components")).items():
        if component not in known:
            continue
        body = _object(value)
        variants: Object = {
            variant: _unmarked(_object(item), component, variant)
            for variant, item in _object(body.get("variants")).items()
            if (component, variant) in scopes
        }
        components[component] = {**body, "variants": variants}
    return components


def _unmarked(body: Object, component: str, variant: str) -> Object:
    own = f"{component}/{variant}"
    if body.get("variant_directory", own) != own:
        raise InvalidPackageError(
            f"manifest: {place_of_variant(component, variant)}/variant_directory must be {own!a},"
            " where the payloads are"
        )
    if "executor_info" not in body:
        return body
    return {**body, "executor_info": _without(_object(body["executor_info"]), NAMESPACE)}


def _check_model(info: Object, variant: RecordVariant, sealed: SealRecord) -> None:
    """Refuse a model that isn't there: nobody could load what would be sealed."""
    model = _object(info.get("ort", {})).get("model_file")
    if not isinstance(model, str):
        return
    named = references.named(info)
    there = {payload.name for payload in variant.payloads}
    for asset in sealed.assets:
        if asset.uri in named:
            there |= {f"{asset.uri}/{payload.name}" for payload in asset.payloads}
    try:
        names_in.resolve(model, there)
    except RequestError as error:
        place = place_of_variant(variant.component, variant.variant)
        raise InvalidPackageError(
            f"manifest: {place}/executor_info/ort/model_file: {error.message}"
        ) from None


def _without(value: Object, name: str) -> Object:
    return {key: item for key, item in value.items() if key != name}


def _object(value: JsonValue) -> Object:
    if not isinstance(value, dict):
        raise InvalidPackageError("manifest: what the package consists of must be objects, inline")
    return value
