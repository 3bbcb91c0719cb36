"""Sealed exports that come back: they keep their name, version, package id, key and number."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import AlreadyExistsError, ConflictError
from sealcar_server.keys.provider import WrappedKey, package_context
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.service.admitting import authentic, check_asked
from sealcar_server.service.in_use import KeysInUse, Use
from sealcar_server.service.values import Imported

if TYPE_CHECKING:
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.admitting import Admission
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.finding import Found
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.turns import Turns
    from sealcar_server.service.values import ImportPlan
    from sealcar_server.store.interface import Staging, Store


@dataclass(frozen=True)
class Returning:
    """Takes them; safe to share between threads.

    Attributes:
        store, keyring, pointers: of the daemon.
        admission: says what may come in.
        turns: of all who publish.
    """

    store: Store
    keyring: Custody
    pointers: Pointers
    admission: Admission
    turns: Turns

    def arrival(self, plan: ImportPlan, found: Found) -> ReturningArrival:
        """Check an export's record, and that it may come in; raises as `SealedImporter.begin`."""
        check_asked(plan, found)
        record = found.record
        wrapped = WrappedKey(record.kek_version, record.wrapped)
        use = Use(record.kek_alias, wrapped, package_context(record.package_id))
        root = self.keyring.unwrap(use.alias, use.wrapped, use.context)
        with ExitStack() as undo:
            keys = undo.enter_context(PackageKeys(root, record.package_id))
            opened = authentic(found, keys)
            self.admission.check(opened, keys)
            self.pointers.refuse_forged(record.name)
            undo.pop_all()
        arrival = ReturningArrival(self, found.data, opened, keys)
        arrival.in_use = KeysInUse(self.keyring, (use,))
        return arrival


class ReturningArrival:
    """One of them, as an `Arrival`."""

    publisher = ""
    in_use: KeysInUse

    def __init__(
        self, returning: Returning, data: bytes, opened: OpenedPackage, keys: PackageKeys
    ) -> None:
        self._with, self._data = returning, data
        self.opened, self.keys = opened, keys
        self.name, self.version = opened.place.name, opened.place.version

    def publish(self, staging: Staging, _scratch: Scratch) -> Imported:
        """Put it in its own place; its manifest is what came."""
        place, tools = self.opened.place, self._with
        with tools.turns.of(self.name, self.version):
            tools.admission.check(self.opened, self.keys)
            first = not tools.store.newest(self.name, self.version)
            moving = tools.pointers.moving(self.name, self.version, place.number)
            with moving if first else nullcontext():
                try:
                    published = staging.publish(self._data, place.number)
                except ConflictError as error:
                    raise AlreadyExistsError("another import of it was faster") from error
                key = self.keys.fingerprint()
                tools.admission.opener.saw(published, self.opened.digest, key)
        return Imported(self.name, self.version, place.number, self.opened.record.package_id)
