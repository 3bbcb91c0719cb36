"""All that the daemon does, put together over one store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.keys.signing import Vouching
from sealcar_server.service.admitting import Admission
from sealcar_server.service.asset_index import AssetIndex
from sealcar_server.service.checking import ModelChecker, Unchecked
from sealcar_server.service.choosing import Choosing
from sealcar_server.service.commit_check import CommitCheck
from sealcar_server.service.entrance import Entrance
from sealcar_server.service.exporting import Exporter
from sealcar_server.service.following import Following
from sealcar_server.service.forwarded import Forwarded
from sealcar_server.service.gate import Gate
from sealcar_server.service.importers import Importers, SealedImporter
from sealcar_server.service.importing import Importer
from sealcar_server.service.keeping import Keeping
from sealcar_server.service.key_export import KeyExporter
from sealcar_server.service.keys import Keys, Works
from sealcar_server.service.listing import Listing
from sealcar_server.service.looking import Looking
from sealcar_server.service.metering import UNMETERED, Meter
from sealcar_server.service.new_versions import NewVersions
from sealcar_server.service.opening import Opener
from sealcar_server.service.packages import Packages
from sealcar_server.service.payloads import Payloads
from sealcar_server.service.pinning import Pinning
from sealcar_server.service.pointer import Pointers
from sealcar_server.service.prefetching import Prefetcher
from sealcar_server.service.pruning import Pruning
from sealcar_server.service.publishing import Publisher
from sealcar_server.service.quotas import Quotas
from sealcar_server.service.registry import Registry
from sealcar_server.service.remembering import Remembered
from sealcar_server.service.removing import Removing
from sealcar_server.service.resealing import Resealer
from sealcar_server.service.returning import Returning
from sealcar_server.service.rewrapping import Rewrapper
from sealcar_server.service.rollback import Seen
from sealcar_server.service.sharing import Sharing
from sealcar_server.service.shredding import Shredder
from sealcar_server.service.standing import Standing
from sealcar_server.service.store_key import StoreKey
from sealcar_server.service.transit import Forwarder
from sealcar_server.service.turns import Turns
from sealcar_server.service.uses import LATELY, Uses
from sealcar_server.service.validating import Validator
from sealcar_server.service.verifying import Verifier

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.access.policy import BoundedRules
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.holding import Doors
    from sealcar_server.store.interface import Store


@dataclass(frozen=True)
class Limits:
    """What may be configured.

    Attributes:
        transaction_ttl: seconds of idleness after which a transaction without a session ends.
        transactions: how many may be open at once.
        transactions_of_one: how many of them one principal may have.
        opened_packages: how many opened generations are remembered.
        opened_bytes: of how many bytes of manifests together: parsed they take many times as much.
        used_lately: for how many seconds a generation that somebody used isn't pruned.
        require_pins: whoever reads reads only what a pin of the policy is about.
    """

    transaction_ttl: float = 300.0
    transactions: int = 256
    transactions_of_one: int = 64
    opened_packages: int = 128
    opened_bytes: int = 16 << 20
    used_lately: float = LATELY
    require_pins: bool = False


@dataclass(frozen=True)
class Service:
    """The use cases; endpoints call these and nothing else."""

    listing: Listing
    looking: Looking
    validator: Validator
    resealer: Resealer
    packages: Packages
    exporter: Exporter
    payloads: Payloads
    choosing: Choosing
    removing: Removing
    pruning: Pruning
    keys: Keys
    key_exporter: KeyExporter
    prefetcher: Prefetcher
    standing: Standing
    following: Following
    store: Store

    @classmethod
    def over(  # noqa: PLR0913  (what it is made of)
        cls,
        store: Store,
        keyring: Custody,
        policy: BoundedRules,
        *,
        state: Path,
        limits: Limits | None = None,
        meter: Meter = UNMETERED,
        trail: Trail = UNAUDITED,
        checker: ModelChecker | None = None,
        vouching: Vouching | None = None,
    ) -> Self:
        """Put the service together; store and keyring stay their owner's.

        Raises:
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
            StorageError: the state directory can't be read.
        """
        limits = limits or Limits()
        seen = Seen(state)
        store_key = StoreKey(store, keyring)
        # asked for now, so that a daemon with the wrong key fails at its start, unless it is locked
        if not keyring.locked:
            store_key.open().close()
        gate = Gate(policy, locked=keyring.locked, read_only=store.read_only)
        pointers = Pointers(store, store_key, seen)
        remembered = Remembered(limits.opened_packages, limits.opened_bytes)
        pins = Pinning(policy, required=limits.require_pins)
        opener = Opener(
            store, keyring, seen, pointers, remembered=remembered, pins=pins, meter=meter
        )
        registry = Registry(
            ttl=limits.transaction_ttl,
            capacity=limits.transactions,
            of_one=limits.transactions_of_one,
        )
        turns = Turns()
        checker = checker or Unchecked()
        check = CommitCheck(checker, opener)
        publisher = Publisher(opener, turns, check=check, meter=meter)
        uses = Uses(limits.used_lately)
        quotas = Quotas(store, policy)
        keeping = Keeping(registry, uses, pins)
        rewrapper = Rewrapper(
            store,
            keyring,
            opener,
            store_key=store_key,
            turns=turns,
            remembered=remembered,
            keeping=keeping,
        )
        shredder = Shredder(store, pointers.tombstones, turns=turns, remembered=remembered)
        entrance = Entrance(gate, opener, uses, trail)
        removing = Removing(
            gate,
            store,
            pointers=pointers,
            seen=seen,
            turns=turns,
            registry=registry,
            uses=uses,
            remembered=remembered,
            trail=trail,
        )
        removing.settle()
        sharing = Sharing(AssetIndex(store, store_key), opener)
        versions = NewVersions(store, opener, pointers, seen, turns)
        importer = Importer(store, keyring, versions, sharing, checker, quotas, meter)
        verifier = Verifier(opener, store_key)
        admission = Admission(store, opener, seen, pointers.tombstones)
        vouching = vouching or Vouching()
        payloads = Payloads(
            gate,
            opener,
            store,
            entrance=entrance,
            publisher=publisher,
            registry=registry,
            quotas=quotas,
            trail=trail,
        )
        prefetcher = Prefetcher(payloads, meter)
        importers = Importers(
            importer,
            SealedImporter(
                store,
                Returning(store, keyring, pointers, admission, turns),
                Forwarded(store, keyring, versions, vouching.publishers, checker),
                quotas,
                meter,
            ),
        )
        return cls(
            Listing(gate, store, pointers, trail),
            Looking(gate, store, entrance, pointers),
            Validator(gate, opener, trail),
            Resealer(gate, store, opener, turns=turns, remembered=remembered, trail=trail),
            Packages(
                gate, importers, entrance=entrance, verifier=verifier, meter=meter, trail=trail
            ),
            Exporter(gate, entrance, opener, Forwarder(keyring, vouching.signer)),
            payloads,
            Choosing(gate, opener, pointers, turns=turns, trail=trail),
            removing,
            Pruning(
                gate,
                store,
                turns=turns,
                keeping=keeping,
                uses=uses,
                remembered=remembered,
                trail=trail,
            ),
            Keys(
                keyring,
                gate,
                store,
                store_key=store_key,
                works=Works(rewrapper, shredder),
                registry=registry,
            ),
            KeyExporter(opener, keyring, trail),
            prefetcher,
            Standing(prefetcher, gate, opener),
            Following(store, remembered, uses),
            store,
        )

    def serve_behind(self, doors: Doors) -> None:
        """Let these know when transfers have to end."""
        self.keys.serve_behind(doors)
        self.removing.serve_behind(doors)

    def close(self) -> None:
        """Abort every open transaction."""
        self.following.close()
        self.payloads.close()
