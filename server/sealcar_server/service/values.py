"""What goes in and out of the service, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScopeKey:
    """What a payload's name is relative to. Empty version: current; generation 0: newest."""

    package: str
    version: str
    component: str
    variant: str
    generation: int = 0


@dataclass(frozen=True)
class PayloadValue:
    """One payload as the seal record has it; equal identities mean equal bytes."""

    name: str
    kind: str
    size: int
    sealed: bool
    identity: bytes


@dataclass(frozen=True)
class VariantValue:
    """One variant; `sealed` is false for one that the manifest has and the seal record hasn't."""

    component: str
    variant: str
    ep: str = ""
    device: str = ""
    compatibility: str = ""
    executor_info_json: str = "{}"
    payloads: tuple[PayloadValue, ...] = ()
    sealed: bool = True


@dataclass(frozen=True)
class AssetValue:
    """One shared asset; the names of its payloads are relative to it."""

    uri: str
    payloads: tuple[PayloadValue, ...]


@dataclass(frozen=True)
class OpenedVariant:
    """A resolved scope and what is in it."""

    scope: ScopeKey
    variant: VariantValue


@dataclass(frozen=True)
class PackageSummary:
    """One version of one package. Not authenticated: no key was asked for."""

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
class PackageDetail:
    """One package in full.

    Attributes:
        summary: what a listing says of it.
        package_id: 16 bytes.
        kek_alias, kek_version: what wraps its key.
        variants: those whose components the caller may list.
        description: free text; never authenticated.
        assets: shared ones that those variants use.
        generations: of this version that are in the store, newest first.
        versions: that are in the store, sorted.
        manifest_sha256: of the manifest as it lies in the store.
        verified: False: the daemon is locked, so nobody checked any of this.
    """

    summary: PackageSummary
    package_id: bytes
    kek_alias: str
    kek_version: str
    variants: tuple[VariantValue, ...]
    description: str
    assets: tuple[AssetValue, ...] = ()
    generations: tuple[int, ...] = ()
    versions: tuple[str, ...] = ()
    manifest_sha256: bytes = b""
    verified: bool = True


@dataclass(frozen=True)
class ResolvedReference:
    """What a name in a package stands for."""

    scope: ScopeKey
    payloads: tuple[PayloadValue, ...]


@dataclass(frozen=True)
class ImportPlan:
    """What an import begins with.

    Attributes:
        name: of the package.
        version: empty: chosen from the manifest.
        manifest_json: of a sealed one with its seal record.
        kek_alias: empty: the store's default.
        sealed: what follows is ciphertext, a sealed export's.
    """

    name: str
    version: str
    manifest_json: str
    kek_alias: str = ""
    sealed: bool = False


@dataclass(frozen=True)
class Announced:
    """A payload of an import whose bytes follow: of a variant, or of a shared asset by its URI."""

    component: str
    variant: str
    name: str
    kind: str
    size: int
    asset: str = ""


@dataclass(frozen=True)
class Imported:
    """A finished import."""

    name: str
    version: str
    generation: int
    package_id: bytes


@dataclass(frozen=True)
class Verified:
    """Every byte of this generation was read and found authentic."""

    generation: int
    payloads: int
    size: int


@dataclass(frozen=True)
class CommitValues:
    """What a commit says of its variant.

    Attributes:
        payloads: how many were written; another number is refused.
        ep, device, compatibility: as in the manifest; empty means absent.
        executor_info_json: one object of namespace to object.
    """

    payloads: int
    ep: str = ""
    device: str = ""
    compatibility: str = ""
    executor_info_json: str = "{}"
