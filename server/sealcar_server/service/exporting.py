"""Lets a generation out: sealed as it lies in the store, or plain for those who may have it so."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sealcar.errors import InvalidRequestError
from sealcar_server.access.permit import Permit
from sealcar_server.access.policy import Right
from sealcar_server.sealing.values import RecordAsset
from sealcar_server.service.failing import during
from sealcar_server.service.opened import every_payload
from sealcar_server.service.outgoing import (
    Outgoing,
    plain_files,
    plain_pieces,
    sealed_files,
)
from sealcar_server.service.outgoing_manifest import refuse_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.entrance import Entrance
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.transit import Forwarder, Recipient
    from sealcar_server.store.generation import Generation


@dataclass(frozen=True)
class Preparing:
    """Nothing can be sent yet: so many bytes have been read for it."""

    done: int


@dataclass(frozen=True)
class Begun:
    """How many files follow, and their bytes together."""

    files: int
    size: int


Step: TypeAlias = Preparing | Begun | Outgoing | bytes


@dataclass(frozen=True)
class Export:
    """One export that was allowed.

    Attributes:
        place: what is exported.
        permit: checked before each piece that leaves.
    """

    place: Generation
    permit: Permit
    _source: SealedSource | PlainSource = field(repr=False)

    def steps(self, scratch: Scratch) -> Iterator[Step]:
        """Yield what there will be, then each file followed by its bytes, in the order of paths.

        Raises:
            DeniedError: the grant was taken away.
            DamagedError: a payload isn't what its record says.
            KeyRefusedError, KeyUnavailableError, StorageError: it can't be read.
        """
        for step in self._source.steps(scratch):
            self.permit.check()
            yield step
            if isinstance(step, Outgoing):
                for piece in step.pieces(scratch):
                    self.permit.check()
                    self.permit.renew()
                    yield piece


class SealedSource:
    """A generation as it lies in the store, perhaps with another manifest."""

    def __init__(self, opened: OpenedPackage, manifest: bytes | None = None) -> None:
        self._files = sealed_files(opened, manifest)

    def steps(self, _scratch: Scratch) -> Iterator[Step]:
        """Yield the files."""
        yield from _listed(self._files)


class PlainSource:
    """A generation as it was before it was sealed."""

    def __init__(self, opener: Opener, opened: OpenedPackage) -> None:
        self._opener, self._opened = opener, opened

    def steps(self, scratch: Scratch) -> Iterator[Step]:
        """Read shared assets for their names' sake, then yield the files."""
        digests: dict[str, dict[str, bytes]] = {
            asset.uri: {} for asset in self._opened.record.assets
        }
        done = 0
        for held in every_payload(self._opened):
            if isinstance(held.owner, RecordAsset):
                digest = hashlib.sha256()
                for piece in plain_pieces(self._opener, self._opened, held)(scratch):
                    digest.update(piece)
                    done += len(piece)
                    yield Preparing(done)
                digests[held.owner.uri][held.payload.name] = digest.digest()
        yield from _listed(plain_files(self._opener, self._opened, digests))


def _listed(files: list[Outgoing]) -> Iterator[Step]:
    yield Begun(len(files), sum(file.size for file in files))
    yield from files


class Exporter:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        entrance: opens packages for callers.
        opener: gives the keys of what is exported in plain.
        forwarder: wraps packages for others.
    """

    def __init__(
        self, policy: Rules, entrance: Entrance, opener: Opener, forwarder: Forwarder
    ) -> None:
        self._policy, self._entrance, self._opener = policy, entrance, opener
        self._forwarder = forwarder

    def export(
        self,
        principal: Principal,
        place: tuple[str, str, int],
        *,
        plain: bool = False,
        recipient: Recipient | None = None,
    ) -> Export:
        """Open a generation for its export; the decision is accounted for when this returns.

        Args:
            principal: who asks.
            place: name, version (empty: the current one), generation (0: the newest).
            plain: opened, with its original references.
            recipient: whom it is wrapped for. To a key that the caller brings, or that this daemon
                opens too, it leaves as good as plain, and so that right is needed.

        Raises:
            InvalidRequestError: there can't be such a recipient.
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not export it, or not so.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        with during("export", package=place[0]):
            more = self._named(recipient, plain=plain)
        opens = recipient is not None and self._forwarder.opens(recipient)
        right = Right.EXPORT_PLAIN if plain or opens else Right.EXPORT
        permit = Permit(self._policy, principal, right, place[0])
        with self._entrance.enter(principal, right, place, **more) as opened:
            self._entrance.bind(permit, opened)
            with during("export"):
                refuse_missing(opened.missing)
                source = self._source(opened, recipient, plain=plain)
            return Export(opened.place, permit, source)

    def _named(self, recipient: Recipient | None, *, plain: bool) -> dict[str, str]:
        if recipient is None:
            return {}
        recipient.check()
        if plain:
            raise InvalidRequestError("an export is plain or for a recipient, not both")
        # a key of the configuration is named by its alias: nobody is asked before the policy is
        return {"recipient": recipient.alias or self._forwarder.named(recipient)}

    def _source(
        self, opened: OpenedPackage, recipient: Recipient | None, *, plain: bool
    ) -> SealedSource | PlainSource:
        if plain:
            return PlainSource(self._opener, opened)
        manifest = self._forwarder.manifest(opened, recipient) if recipient else None
        return SealedSource(opened, manifest)
