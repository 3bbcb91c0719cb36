"""One authentic generation: what of it may be acted upon, and served."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from sealcar import names
from sealcar.errors import NotFoundError, TruncatedError
from sealcar_server.sealing.values import RecordAsset, RecordVariant
from sealcar_server.service.references import named
from sealcar_server.store.generation import asset_path, payload_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordPayload, SealRecord
    from sealcar_server.store.generation import Generation


Owner: TypeAlias = RecordVariant | RecordAsset


@dataclass(frozen=True)
class Held:
    """A payload, and the variant or shared asset that holds it."""

    owner: Owner
    payload: RecordPayload

    @property
    def name(self) -> str:
        """As those call it who read it through a variant."""
        if isinstance(self.owner, RecordAsset):
            return f"{self.owner.uri}/{self.payload.name}"
        return self.payload.name

    @property
    def place(self) -> dict[str, str]:
        """Where it is, for an error."""
        if isinstance(self.owner, RecordAsset):
            return {"payload": self.name}
        scope = {"component": self.owner.component, "variant": self.owner.variant}
        return {**scope, "payload": self.name}

    def path(self, uris: Mapping[str, str] | None = None) -> str:
        """Return where its file is in a generation's directory.

        Args:
            uris: by which shared assets are called there, by their own; None: by their own.

        Raises:
            InvalidNameError: a name breaks a rule of the format.
        """
        owner, name = self.owner, self.payload.name
        if isinstance(owner, RecordAsset):
            return "/".join(asset_path((uris or {}).get(owner.uri, owner.uri), name))
        return "/".join(payload_path(owner.component, owner.variant, name))

    def open(self, place: Generation) -> SealedFile:
        """Return its file there; as `Generation.open_payload`."""
        owner, name = self.owner, self.payload.name
        if isinstance(owner, RecordAsset):
            return place.open_asset(owner.uri, name)
        return place.open_payload(owner.component, owner.variant, name)


@dataclass(frozen=True)
class OpenedPackage:
    """One authentic generation. Holds no key and no descriptor.

    Attributes:
        place: where it lies in the store.
        size: of the manifest, in bytes.
        manifest: as parsed; of it only what the record covers may be acted upon.
        record: what may be acted upon.
        digest: SHA-256 of the record.
        missing: what the record has and the manifest lacks, (component, variant) each.
        unsealed: what the manifest has and the record lacks.
    """

    place: Generation
    size: int
    manifest: dict[str, JsonValue] = field(repr=False)
    record: SealRecord = field(repr=False)
    digest: bytes
    missing: tuple[tuple[str, str], ...]
    unsealed: tuple[tuple[str, str], ...]

    def find(self, component: str, variant: str) -> RecordVariant | None:
        """Return a variant of the record, if there is one."""
        for item in self.record.variants:
            if (item.component, item.variant) == (component, variant):
                return item
        return None

    def variant(self, component: str, variant: str) -> RecordVariant:
        """Return a variant that may be served.

        Raises:
            NotFoundError: the record has none of that name.
            TruncatedError: the manifest lacks a variant of this component.
        """
        found = self.find(component, variant)
        if found is None:
            raise self._unknown(component, variant)
        for gone in self.missing:
            # what is missing could have been the better choice
            if gone[0] == component:
                raise TruncatedError(f"the manifest lacks variant {names.shown(gone[1])}")
        return found

    def body(self, component: str, variant: str) -> dict[str, JsonValue]:
        """Return what the manifest says of a variant; empty if it says nothing."""
        found: JsonValue = self.manifest
        for step in ("components", component, "variants", variant):
            found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def has_component(self, component: str) -> bool:
        """Tell whether the record has a component of that name."""
        return any(item.component == component for item in self.record.components)

    def payload(self, component: str, variant: str, name: str) -> Held:
        """Return a payload that may be served; NotFoundError if the variant sees none such."""
        found = self.variant(component, variant)
        seen = self._seen.get((component, variant))
        if seen is None:
            # the first of a name is meant
            held = tuple(self.seen_from(found))
            seen = {one.name: one for one in reversed(held)}
            self._seen[component, variant] = seen
        if name in seen:
            return seen[name]
        raise NotFoundError(f"payload {names.shown(name)} doesn't exist")

    def seen_from(self, variant: RecordVariant) -> Iterator[Held]:
        """Return a variant's own payloads, then those of the shared assets that it refers to."""
        owners: tuple[Owner, ...] = (variant, *self.assets_of(variant))
        for owner in owners:
            for payload in owner.payloads:
                yield Held(owner, payload)

    def assets_of(self, variant: RecordVariant) -> tuple[RecordAsset, ...]:
        """Return the shared assets that a variant refers to, in the record's order."""
        if not self.record.assets:
            return ()
        uris = named(self.body(variant.component, variant.variant).get("executor_info"))
        return tuple(asset for asset in self.record.assets if asset.uri in uris)

    def users_of(self, uri: str) -> tuple[RecordVariant, ...]:
        """Return the variants that refer to a shared asset."""
        return self._users.get(uri, ())

    @cached_property
    def _seen(self) -> dict[tuple[str, str], Mapping[str, Held]]:
        return {}

    @cached_property
    def _users(self) -> Mapping[str, tuple[RecordVariant, ...]]:
        # both may be many, so they are gone through once and not for each other
        found: dict[str, list[RecordVariant]] = {}
        for variant in self.record.variants:
            body = self.body(variant.component, variant.variant)
            for uri in named(body.get("executor_info")):
                found.setdefault(uri, []).append(variant)
        return {uri: tuple(variants) for uri, variants in found.items()}

    def _unknown(self, component: str, variant: str) -> NotFoundError:
        if (component, variant) in self.unsealed:
            return NotFoundError(f"variant {names.shown(variant)} isn't sealed: it is never served")
        if not self.has_component(component):
            return NotFoundError(f"component {names.shown(component)} doesn't exist")
        return NotFoundError(f"variant {names.shown(variant)} doesn't exist")


def every_payload(opened: OpenedPackage) -> Iterator[Held]:
    """Return all payloads of a generation: those of its variants, then those of its assets."""
    owners: tuple[Owner, ...] = (*opened.record.variants, *opened.record.assets)
    for owner in owners:
        for payload in owner.payloads:
            yield Held(owner, payload)
