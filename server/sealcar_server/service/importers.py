"""Both ways into the store: plain packages, which are sealed, and sealed exports, which stay so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sealcar_server.service.metering import UNMETERED, Meter
from sealcar_server.service.sealed_importing import SealedImport

if TYPE_CHECKING:
    from sealcar_server.service.admitting import Admission
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.importing import Importer, ImportSession
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.turns import Turns
    from sealcar_server.service.values import ImportPlan
    from sealcar_server.store.local import LocalStore

Session: TypeAlias = "ImportSession | SealedImport"


@dataclass(frozen=True)
class SealedImporter:
    """Begins imports of sealed exports; safe to share between threads.

    Attributes:
        store, keyring, pointers: of the daemon.
        admission: says what may come in.
        turns: of all who publish.
        meter: is told the seconds of "verify".
    """

    store: LocalStore
    keyring: Custody
    pointers: Pointers
    admission: Admission
    turns: Turns
    meter: Meter = UNMETERED

    def begin(self, plan: ImportPlan) -> SealedImport:
        """Begin to take a sealed export in, its name checked; raises as `SealedImport`."""
        return SealedImport(plan, self)


@dataclass(frozen=True)
class Importers:
    """Begins imports; safe to share between threads.

    Attributes:
        plain: takes packages in and seals them.
        sealed: takes sealed exports in.
    """

    plain: Importer
    sealed: SealedImporter

    def begin(self, plan: ImportPlan) -> Session:
        """Begin an import, its name checked; raises as `ImportSession` or `SealedImport`."""
        return self.sealed.begin(plan) if plan.sealed else self.plain.begin(plan)
