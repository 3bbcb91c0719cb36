"""Ways into the store: plain packages, which are sealed; sealed exports; packages in transit."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sealcar_server.service import finding
from sealcar_server.service.arriving import file_size
from sealcar_server.service.metering import UNMETERED, Meter
from sealcar_server.service.opened import every_payload
from sealcar_server.service.sealed_importing import SealedImport

if TYPE_CHECKING:
    from sealcar_server.service.forwarded import Forwarded
    from sealcar_server.service.importing import Importer, ImportSession
    from sealcar_server.service.quotas import Quotas
    from sealcar_server.service.returning import Returning
    from sealcar_server.service.values import ImportPlan
    from sealcar_server.store.interface import Store

Session: TypeAlias = "ImportSession | SealedImport"


@dataclass(frozen=True)
class SealedImporter:
    """Begins imports of what is sealed already; safe to share between threads.

    Attributes:
        store: of the daemon.
        returning: takes exports that were sealed under a key of this daemon.
        forwarded: takes packages that somebody else sent.
        quotas: of what comes in.
        meter: is told the seconds of "verify".
    """

    store: Store
    returning: Returning
    forwarded: Forwarded
    quotas: Quotas
    meter: Meter = UNMETERED

    def begin(self, plan: ImportPlan) -> SealedImport:
        """Begin to take something sealed in, its name checked.

        Raises:
            InvalidPackageError: it is to become what it can't.
            DamagedError: its record isn't authentic, or it is older than what was seen.
            KeyRefusedError, KeyUnavailableError: its key can't be unwrapped here.
            AlreadyExistsError, ConflictError, WrongStateError: it may not come in.
            ExhaustedError, StorageError: nothing can be staged, or a quota has no room for it.
        """
        found = finding.parsed(
            plan.manifest_json.encode(),
            lambda own: self.store.place(own.name, own.version, own.generation),
        )
        kind = self.returning if found.record.transit is None else self.forwarded
        arrival = kind.arrival(plan, found)
        with ExitStack() as undo:
            undo.callback(arrival.keys.close)
            room = undo.enter_context(self.quotas.claim(arrival.name))
            sizes = (held.payload.size for held in every_payload(arrival.opened))
            room.take(sum(map(file_size, sizes)))
            staging = self.store.stage(arrival.name, arrival.version)
            undo.pop_all()
        return SealedImport(arrival, staging, room, self.meter)


@dataclass(frozen=True)
class Importers:
    """Begins imports; safe to share between threads.

    Attributes:
        plain: takes packages in and seals them.
        sealed: takes in what is sealed already.
    """

    plain: Importer
    sealed: SealedImporter

    def begin(self, plan: ImportPlan) -> Session:
        """Begin an import, its name checked; raises as `ImportSession` or `SealedImporter`."""
        return self.sealed.begin(plan) if plan.sealed else self.plain.begin(plan)
