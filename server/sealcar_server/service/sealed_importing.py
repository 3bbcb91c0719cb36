"""Takes a sealed export in: its ciphertext stays as it is, and all of it is checked first."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Protocol

from sealcar.errors import InvalidPackageError, NotAuthenticError, TruncatedError, WrongStateError
from sealcar_server.sealing.layout import Layout
from sealcar_server.sealing.values import RecordAsset
from sealcar_server.service.failing import during
from sealcar_server.service.inward import Inward
from sealcar_server.service.metering import timed
from sealcar_server.service.opened import every_payload
from sealcar_server.service.sealed_arriving import SealedArriving
from sealcar_server.service.serving import keyed_digest, payload_key
from sealcar_server.service.trees import tree_uri

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.in_use import KeysInUse
    from sealcar_server.service.metering import Meter
    from sealcar_server.service.opened import Held, OpenedPackage
    from sealcar_server.service.quotas import Claim
    from sealcar_server.service.values import Imported
    from sealcar_server.store.interface import Staging


class Arrival(Protocol):
    """A sealed generation that may come in once all its payloads have; its record was checked.

    Attributes:
        name, version: what it becomes in the store.
        opened: what its record says.
        keys: of the package; whoever has the arrival closes them.
        publisher: who signed it; empty if nobody did.
        in_use: keys that it came and will lie under.
    """

    name: str
    version: str
    publisher: str
    opened: OpenedPackage
    keys: PackageKeys
    in_use: KeysInUse

    def publish(self, staging: Staging, scratch: Scratch) -> Imported:
        """Make a generation of it, all of whose payloads are staged and checked.

        Raises:
            AlreadyExistsError, RolledBackError: somebody published meanwhile.
            InvalidPackageError: what came in may not be published.
            ExhaustedError, StorageError: it can't be written.
        """


class SealedImport(Inward):
    """One sealed generation on its way in.

    Args:
        arrival: what is coming; its keys belong to this object from now on.
        staging: for it.
        room: reserved for it.
        meter: is told the seconds of "verify".
    """

    phase = "verify"

    def __init__(self, arrival: Arrival, staging: Staging, room: Claim, meter: Meter) -> None:
        super().__init__(arrival.name, arrival.version, room=room, keys=arrival.keys)
        self._arrival, self._meter = arrival, meter
        self._staging = self._stage(staging)
        self._opened = arrival.opened
        self.publisher, self.in_use = arrival.publisher, arrival.in_use
        self._expected = {_key(held): held for held in every_payload(self._opened)}
        self._files: dict[str, dict[str, bytes]] = {
            asset.uri: {} for asset in self._opened.record.assets
        }
        self._arriving: tuple[Held, SealedArriving] | None = None
        self._came = 0
        self._ending.callback(self._drop_arriving)

    def payload(
        self, component: str, variant: str, name: str, kind: str, size: int, *, asset: str = ""
    ) -> None:
        """Announce the next payload; its ciphertext follows.

        Raises:
            InvalidPackageError: the record has none such, or it came already.
            TruncatedError: its size isn't the record's, or the payload before is incomplete.
            ExhaustedError, StorageError: it can't be written. Any error ends the import.
        """
        with self._step(component=component, variant=variant, payload=name):
            self._complete()
            held = self._expected.pop((component, variant, asset, name), None)
            if held is None or held.payload.kind != kind:
                raise InvalidPackageError("the seal record has no such payload, or it came twice")
            _check_size(held, size)
            key = payload_key(self._keys, held)
            sealed = SealedArriving(held.payload, self._create(held), key, self._scratch)
            self._arriving = (held, sealed)

    def data(self, data: bytes) -> None:
        """Take the next bytes of the payload announced last.

        Raises:
            WrongStateError: none was announced.
            DamagedError: they aren't what the record names.
            ExhaustedError, StorageError: they can't be written. Any error ends the import.
        """
        with self._step(**self._place()), timed(self._meter, "verify"):
            if self._arriving is None:
                raise WrongStateError("bytes came before a payload was announced")
            self._arriving[1].feed(data)

    def finish(self, count: int) -> Imported:
        """Publish the generation; it is current if its version is new here.

        Raises:
            TruncatedError: not all payloads of the record came.
            NotAuthenticError: a shared asset isn't the one that its URI names.
            SealcarError: see `Arrival.publish`. Any error ends the import.
        """
        with self._step():
            self._complete()
            if self._expected or count != self._came:
                raise TruncatedError(
                    f"{self._came} payloads came, {count} were sent, "
                    f"{self._came + len(self._expected)} are in the seal record"
                )
            self._settle()
            self.in_use.admit()
            imported = self._arrival.publish(self._staging, self._scratch)
            self._room.published()
        self.abort()
        return imported

    def _drop_arriving(self) -> None:
        if self._arriving is not None:
            self._arriving[1].close()

    def _create(self, held: Held) -> int:
        owner, name = held.owner, held.payload.name
        if isinstance(owner, RecordAsset):
            return self._staging.create_asset(_label(owner), name)
        return self._staging.create_payload(owner.component, owner.variant, name)

    def _complete(self) -> None:
        """Check the end of the payload that was arriving."""
        if self._arriving is None:
            return
        held, arriving = self._arriving
        with during("verify", **held.place):
            stored, opened = arriving.finish()
            payload = held.payload
            digest = keyed_digest(self._keys, held, opened)
            if payload.digest and not hmac.compare_digest(digest, payload.digest):
                raise NotAuthenticError("the plaintext isn't the one that was imported")
        if isinstance(held.owner, RecordAsset):
            self._files[held.owner.uri][payload.name] = stored
        self._arriving = None
        self._came += 1

    def _settle(self) -> None:
        """Check every asset against its URI, and give it its place."""
        for asset in self._opened.record.assets:
            files = self._files[asset.uri]
            if tree_uri(files) != asset.uri:
                raise NotAuthenticError(f"the files of {asset.uri} aren't those it names")
            if files:
                self._staging.name_asset(_label(asset), asset.uri)
        for variant in self._opened.record.variants:
            self._staging.create_variant(variant.component, variant.variant)

    def _place(self) -> dict[str, str]:
        return {} if self._arriving is None else self._arriving[0].place


def _check_size(held: Held, size: int) -> None:
    sealed = Layout.of_plain(held.payload.size).file_size
    if size != sealed:
        raise TruncatedError(f"{size} sealed bytes were announced, the record says {sealed}")


def _key(held: Held) -> tuple[str, str, str, str]:
    owner, name = held.owner, held.payload.name
    if isinstance(owner, RecordAsset):
        return "", "", owner.uri, name
    return owner.component, owner.variant, "", name


def _label(asset: RecordAsset) -> str:
    """Return what tells an asset from others until its files are checked."""
    return asset.uri.replace(":", "-staged-")
