"""What the operators' commands get to know of keys. Never a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar import details

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.errors import SealcarError
    from sealcar.v1 import keys_pb2 as pb


@dataclass(frozen=True)
class KekStatus:
    """One key-encryption key of the daemon's configuration.

    Attributes:
        alias: its name in the configuration and in seal records.
        provider: kind of provider.
        version: wraps new package keys.
        available: the provider answered just now.
        problem: why not, else empty.
        cached: unwrapped package keys in the daemon's memory.
        revoked: versions that an operator revoked.
    """

    alias: str
    provider: str
    version: str
    available: bool
    problem: str
    cached: int
    revoked: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeysStatus:
    """Every key-encryption key.

    Attributes:
        keys: none while the daemon is locked.
        locked: an operator's lock keeps every key away.
    """

    keys: tuple[KekStatus, ...]
    locked: bool


@dataclass(frozen=True)
class Holder:
    """A client process that holds plaintext which can't be taken back.

    Attributes:
        session: as in the daemon's log.
        listener, uid, gid: who it is.
        pid: 0 if the daemon doesn't know it.
    """

    session: str
    listener: str
    uid: int
    gid: int
    pid: int


@dataclass(frozen=True)
class Revoked:
    """What a revocation did.

    Attributes:
        alias, version: what is refused now.
        packages: whose newest generation can't be opened any more.
        older: older generations that can't.
        aborted: transactions.
        holders: who was handed plaintext, of whatever package.
    """

    alias: str
    version: str
    packages: int
    older: int
    aborted: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True)
class ShreddedVersion:
    """One version of a package that is gone, with so many generations."""

    package: str
    version: str
    generations: int


@dataclass(frozen=True)
class Shredded:
    """What a shredding did.

    Attributes:
        versions: that are gone.
        aborted: transactions.
        holders: who was handed plaintext, of whatever package.
    """

    versions: tuple[ShreddedVersion, ...]
    aborted: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True)
class Locked:
    """What locking couldn't take back, and how many transactions it aborted."""

    holders: tuple[Holder, ...]
    aborted: int


@dataclass(frozen=True)
class Rotated:
    """A key-encryption key's new version."""

    alias: str
    version: str


@dataclass(frozen=True)
class RewrapStep:
    """How far the moving of packages is.

    Attributes:
        done, total: packages.
        package: NAME@VERSION, which it is at.
    """

    done: int
    total: int
    package: str


@dataclass(frozen=True)
class Rewrapped:
    """What came of moving packages to the current version.

    Attributes:
        packages: how many were moved.
        skipped: under it already, or not asked for.
        removed: older generations that differed in nothing but the wrapped key.
        store_key: whether the store's own key was moved.
        failures: why some couldn't be moved; the first thousand.
        failed: how many couldn't.
    """

    packages: int
    skipped: int
    removed: int
    store_key: bool
    failures: tuple[SealcarError, ...]
    failed: int


@dataclass(frozen=True)
class Hanging:
    """One wrapped key, as the store's files say.

    Attributes:
        package, version: empty for the store's own key.
        generation: 0 for the store's own key.
        newest: true for the generation that clients get, and for the store's own key.
        kek_alias, kek_version: what it is wrapped by; empty if that can't be read.
        problem: why not, else empty.
    """

    package: str
    version: str
    generation: int
    newest: bool
    kek_alias: str
    kek_version: str
    problem: str


def keys_status(message: pb.KeysStatusResponse) -> KeysStatus:
    """Take the state of every key off the wire."""
    keys = tuple(
        KekStatus(
            each.alias,
            each.provider,
            each.version,
            each.available,
            each.problem,
            each.cached,
            tuple(each.revoked),
        )
        for each in message.keks
    )
    return KeysStatus(keys, message.locked)


def holders(found: Iterable[pb.Holder]) -> tuple[Holder, ...]:
    """Take the holders of plaintext off the wire."""
    return tuple(Holder(one.session, one.listener, one.uid, one.gid, one.pid) for one in found)


def revoked(done: pb.RevokeResponse) -> Revoked:
    """Take a revocation off the wire."""
    return Revoked(
        done.alias, done.version, done.packages, done.older, done.aborted, holders(done.holders)
    )


def shredded(done: pb.ShredResponse) -> Shredded:
    """Take a shredding off the wire."""
    versions = tuple(
        ShreddedVersion(one.package.name, one.package.version, one.generations)
        for one in done.shredded
    )
    return Shredded(versions, done.aborted, holders(done.holders))


def rewrapped(done: pb.Rewrapped) -> Rewrapped:
    """Take what came of moving packages off the wire."""
    return Rewrapped(
        done.packages,
        done.skipped,
        done.removed,
        done.store_key,
        tuple(map(details.from_detail, done.failures)),
        done.failed,
    )


def hanging(one: pb.Hanging) -> Hanging:
    """Take a wrapped key's state off the wire."""
    return Hanging(
        one.package.name,
        one.package.version,
        one.generation,
        one.newest,
        one.alias,
        one.version,
        one.problem,
    )
