"""Lets a generation out: sealed as it lies in the store, or plain for those who may have it so."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    plain_size,
    sealed_files,
)
from sealcar_server.service.outgoing_manifest import refuse_missing
from sealcar_server.service.trees import tree_uri

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
class Export:
    """One export that was allowed.

    Attributes:
        place: what is exported.
        files: how many there are.
        size: their bytes together.
        permit: checked before each piece that leaves.
    """

    place: Generation
    files: int
    size: int
    permit: Permit
    _source: SealedSource | PlainSource = field(repr=False)

    def steps(self, scratch: Scratch) -> Iterator[Outgoing | Preparing | bytes]:
        """Yield each file, followed by its bytes, in the order of paths.

        Raises:
            DeniedError: the grant was taken away.
            DamagedError: a payload isn't what its record says.
            KeyRefusedError, KeyUnavailableError, StorageError: it can't be read.
        """
        for step in self._source.files(scratch):
            self.permit.check()
            yield step
            if isinstance(step, Outgoing):
                for piece in step.pieces(scratch):
                    self.permit.check()
                    yield piece


class SealedSource:
    """A generation as it lies in the store, perhaps with another manifest."""

    def __init__(self, opened: OpenedPackage, manifest: bytes | None = None) -> None:
        self._files = sealed_files(opened, manifest)
        self.count = len(self._files)
        self.size = sum(file.size for file in self._files)

    def files(self, _scratch: Scratch) -> Iterator[Outgoing]:
        """Yield them."""
        yield from self._files


class PlainSource:
    """A generation as it was before it was sealed."""

    def __init__(self, opener: Opener, opened: OpenedPackage) -> None:
        self._opener, self._opened = opener, opened
        self.count = 1 + sum(1 for _ in every_payload(opened))
        self.size = plain_size(opened)

    def files(self, scratch: Scratch) -> Iterator[Outgoing | Preparing]:
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
        uris = {uri: tree_uri(files) for uri, files in digests.items()}
        yield from plain_files(self._opener, self._opened, uris)


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
            recipient: whom it is wrapped for. To a key that the caller brings it leaves as good as
                plain, and so that right is needed.

        Raises:
            InvalidRequestError: there can't be such a recipient.
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not export it, or not so.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        with during("export", package=place[0]):
            more = self._recipient(plain, recipient)
        brought = recipient is not None and bool(recipient.key)
        right = Right.EXPORT_PLAIN if plain or brought else Right.EXPORT
        permit = Permit(self._policy, principal, right, place[0])
        with self._entrance.enter(principal, right, place, **more) as opened:
            self._entrance.bind(permit, opened)
            with during("export"):
                refuse_missing(opened.missing)
                source = self._source(opened, plain, recipient)
            return Export(opened.place, source.count, source.size, permit, source)

    def _recipient(self, plain: bool, recipient: Recipient | None) -> dict[str, str]:  # noqa: FBT001  (as given)
        if recipient is None:
            return {}
        recipient.check()
        if plain:
            raise InvalidRequestError("an export is plain or for a recipient, not both")
        # a key of the configuration is named by its alias: nobody is asked before the policy is
        return {"recipient": recipient.alias or self._forwarder.named(recipient)}

    def _source(
        self,
        opened: OpenedPackage,
        plain: bool,  # noqa: FBT001  (as given)
        recipient: Recipient | None,
    ) -> SealedSource | PlainSource:
        if plain:
            return PlainSource(self._opener, opened)
        manifest = self._forwarder.manifest(opened, recipient) if recipient else None
        return SealedSource(opened, manifest)
