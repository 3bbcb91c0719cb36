"""What the catalogue answers, as values that know nothing of the wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sealcar.errors import NotAuthenticError, NotFoundError
from sealcar.transfer.scopes import payload_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sealcar.transfer.payloads import PayloadRef
    from sealcar.v1 import common_pb2 as common
    from sealcar.v1 import package_store_pb2 as pb

# called while long work goes on, on the thread that waits for it
Watcher: TypeAlias = "Callable[[Progress], None]"


@dataclass(frozen=True)
class PackageSummary:
    """One version of one package, as the daemon's listing has it: not authenticated yet."""

    name: str
    version: str
    generation: int
    current: bool
    components: int
    variants: int
    payloads: int
    size: int
    assets: int = 0


@dataclass(frozen=True)
class AssetInfo:
    """One shared asset; the names of its payloads are relative to it."""

    uri: str
    payloads: tuple[PayloadRef, ...]


@dataclass(frozen=True)
class VariantInfo:
    """What the package says of one variant.

    Attributes:
        ep, device, compatibility: what it was compiled for; empty means anything.
        executor_info: came with the package; option names in it are untrusted.
        sealed: False if the seal record doesn't list it: then it is never served.
    """

    component: str
    variant: str
    ep: str
    device: str
    compatibility: str
    executor_info: Mapping[str, Any]
    payloads: tuple[PayloadRef, ...]
    sealed: bool

    def payload(self, name: str) -> PayloadRef:
        """Find a payload by its name.

        Raises:
            NotFoundError: the variant has none of that name.
        """
        for payload in self.payloads:
            if payload.name == name:
                return payload
        raise NotFoundError(_absent("payload", name, (each.name for each in self.payloads)))


@dataclass(frozen=True)
class PackageDetail:
    """One package in full.

    Attributes:
        summary: what a listing says of it.
        package_id: 16 bytes, the same in all generations.
        kek_alias, kek_version: the key-encryption key that wraps its key.
        description: free text, never authenticated.
        variants: each with all its payloads.
        assets: shared ones that the variants use.
        generations: of this version that are in the store, newest first.
        versions: that are in the store, sorted.
        manifest_sha256: of the manifest as it lies in the store.
        verified: whether the daemon checked the seal record. False: it is locked, so nothing of
            this is more than what somebody wrote into the store.
    """

    summary: PackageSummary
    package_id: bytes
    kek_alias: str
    kek_version: str
    description: str
    variants: tuple[VariantInfo, ...]
    assets: tuple[AssetInfo, ...] = ()
    generations: tuple[int, ...] = ()
    versions: tuple[str, ...] = ()
    manifest_sha256: bytes = b""
    verified: bool = False

    def select(self, component: str = "", variant: str = "") -> tuple[VariantInfo, ...]:
        """Return the variants that are meant; an empty name means all.

        Raises:
            NotFoundError: no such component or variant; the message lists what there is.
        """
        found = [each for each in self.variants if component in ("", each.component)]
        if not found and component:
            there = (each.component for each in self.variants)
            raise NotFoundError(_absent("component", component, there))
        chosen = [each for each in found if variant in ("", each.variant)]
        if not chosen and variant:
            raise NotFoundError(_absent("variant", variant, (each.variant for each in found)))
        return tuple(chosen)


@dataclass(frozen=True)
class Progress:
    """How far long work is.

    Attributes:
        done, total: plaintext bytes; the total is 0 while it is unknown.
        payload: the one it is about.
        resume_token: of a check that was cut: another one goes on there.
    """

    done: int
    total: int
    payload: str
    resume_token: str = ""


@dataclass(frozen=True)
class Imported:
    """What an import became."""

    name: str
    version: str
    generation: int
    package_id: bytes


@dataclass(frozen=True)
class Verified:
    """How much was read and found authentic."""

    generation: int
    payloads: int
    size: int


def summary(message: pb.PackageSummary) -> PackageSummary:
    """Take a summary off the wire."""
    return PackageSummary(
        name=message.package.name,
        version=message.package.version,
        generation=message.generation,
        current=message.current,
        components=message.components,
        variants=message.variants,
        payloads=message.payloads,
        size=message.size,
        assets=message.assets,
    )


def detail(message: pb.GetResponse) -> PackageDetail:
    """Take a package off the wire.

    Raises:
        NotAuthenticError: an executor_info isn't a JSON object.
    """
    return PackageDetail(
        summary=summary(message.summary),
        package_id=message.package_id,
        kek_alias=message.kek_alias,
        kek_version=message.kek_version,
        description=message.description,
        variants=tuple(variant(each) for each in message.variants),
        assets=tuple(
            AssetInfo(each.uri, tuple(map(payload_ref, each.payloads))) for each in message.assets
        ),
        generations=tuple(message.generations),
        versions=tuple(message.versions),
        manifest_sha256=message.manifest_sha256,
        verified=message.verified,
    )


def variant(message: common.VariantInfo) -> VariantInfo:
    """Take a variant off the wire.

    Raises:
        NotAuthenticError: its executor_info isn't a JSON object.
    """
    return VariantInfo(
        component=message.component,
        variant=message.variant,
        ep=message.ep,
        device=message.device,
        compatibility=message.compatibility,
        executor_info=_json_object(message.executor_info_json),
        payloads=tuple(payload_ref(each) for each in message.payloads),
        sealed=message.sealed,
    )


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise NotAuthenticError(f"executor_info isn't JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotAuthenticError("executor_info isn't a JSON object")
    return value


def _absent(what: str, name: str, there: Iterable[str]) -> str:
    known = ", ".join(sorted(set(there))) or "none"
    return f"no {what} {name!r}; there is: {known}"
