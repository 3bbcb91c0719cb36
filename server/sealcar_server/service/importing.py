"""Takes a package in: its payloads are sealed while they arrive, then published together."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError, WrongStateError
from sealcar_server.keys.provider import WrappedKey, package_context
from sealcar_server.service import manifest, naming
from sealcar_server.service.arriving import file_size
from sealcar_server.service.composing import compose
from sealcar_server.service.failing import during
from sealcar_server.service.founding import default_version, found_package
from sealcar_server.service.import_check import ImportCheck
from sealcar_server.service.in_use import KeysInUse, Use
from sealcar_server.service.incoming import Incoming
from sealcar_server.service.inward import Inward
from sealcar_server.service.metering import UNMETERED, Meter, timed
from sealcar_server.service.references import named
from sealcar_server.service.values import Announced, Imported

if TYPE_CHECKING:
    from sealcar_server.service.arriving import Arriving
    from sealcar_server.service.checking import ModelChecker
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.incoming import IncomingAsset, IncomingVariant
    from sealcar_server.service.new_versions import NewVersions
    from sealcar_server.service.quotas import Quotas
    from sealcar_server.service.sharing import Sharing
    from sealcar_server.service.values import ImportPlan
    from sealcar_server.store.interface import Store


@dataclass(frozen=True)
class Importer:
    """Begins imports; safe to share between threads.

    Attributes:
        store, keyring: of the daemon.
        versions: lets new ones in.
        sharing: gives shared assets their place.
        checker: looks at the models before they are published.
        quotas: of what comes in.
        meter: is told the seconds of "seal".
    """

    store: Store
    keyring: Custody
    versions: NewVersions
    sharing: Sharing
    checker: ModelChecker
    quotas: Quotas
    meter: Meter = UNMETERED

    def begin(self, plan: ImportPlan) -> ImportSession:
        """Begin to take a package in, its name checked; raises as `ImportSession`."""
        return ImportSession(plan, self)


class ImportSession(Inward):
    """One package on its way in, to be sealed as it comes.

    Args:
        plan: what the caller asked for, its name checked.
        importer: what it works with.

    Attributes:
        publisher: who signed it; empty: nobody signs what comes in plain.
        in_use: the key that it is sealed under.

    Raises:
        InvalidPackageError: the manifest breaks a rule.
        AlreadyExistsError: the version was imported before.
        KeyRefusedError, KeyUnavailableError: the package's key can't be wrapped.
        ExhaustedError, StorageError: nothing can be staged.
    """

    publisher = ""
    phase = "seal"

    def __init__(self, plan: ImportPlan, importer: Importer) -> None:
        self._with, self._meter = importer, importer.meter
        self._manifest = manifest.prepare(plan.manifest_json)
        version = plan.version or default_version(self._manifest)
        number = importer.versions.number(plan.name, version)
        alias = plan.kek_alias or importer.store.identity.kek_alias
        with ExitStack() as undo:
            room = undo.enter_context(importer.quotas.claim(plan.name))
            own, keys = found_package((plan.name, version, number), importer.keyring, alias)
            undo.pop_all()
        super().__init__(plan.name, version, room=room, keys=keys)
        self._lineage = own
        use = Use(alias, WrappedKey(own.kek_version, own.wrapped), package_context(own.package_id))
        self.in_use = KeysInUse(importer.keyring, (use,))
        self._incoming = Incoming(manifest.scopes(self._manifest), keys)
        self._ending.callback(self._incoming.close)
        self._arriving: tuple[IncomingVariant | IncomingAsset, Arriving] | None = None
        try:
            self._staging = self._stage(importer.store.stage(plan.name, version))
        except BaseException:
            self.abort()
            raise
        self._ending.callback(self._drop_arriving)

    def payload(
        self, component: str, variant: str, name: str, kind: str, size: int, *, asset: str = ""
    ) -> None:
        """Announce the next payload, of a variant or of a shared asset; its bytes follow.

        Raises:
            InvalidPackageError: unknown place, or the payload before is incomplete.
            InvalidNameError, AlreadyExistsError: the name breaks a rule, or is taken.
            ExhaustedError, StorageError: it can't be written, or a quota has no room for it. Any
                error ends the import.
        """
        with self._step(component=component, variant=variant, payload=name):
            self._complete()
            naming.payload(name, kind)
            self._room.take(file_size(size))
            announced = Announced(component, variant, name, kind, size, asset)
            holder = self._incoming.holder(announced)
            self._arriving = (holder, holder.begin(announced, self._staging, self._scratch))

    def data(self, data: bytes) -> None:
        """Take the next bytes of the payload announced last.

        Raises:
            WrongStateError: none was announced.
            InvalidPackageError: more than announced.
            ExhaustedError, StorageError: they can't be written. Any error ends the import.
        """
        with self._step(**self._place()), timed(self._meter, "seal"):
            if self._arriving is None:
                raise WrongStateError("bytes came before a payload was announced")
            self._arriving[1].feed(data)

    def finish(self, count: int) -> Imported:
        """Publish the package and make its version the current one.

        Raises:
            InvalidPackageError: another number of payloads came, a variant got none, a shared
                asset isn't the one that its URI names, or a model refers to what didn't come.
            AlreadyExistsError: another import of this version was faster.
            ExhaustedError, StorageError: it can't be written. Any error ends the import.
        """
        with self._step():
            self._complete()
            self._check_complete(count)
            own, admit = self._lineage, self.in_use.admit
            check = ImportCheck(self._incoming, self._staging, self._keys, admit)
            check.run(self._with.checker, self._manifest, self._scratch)
            assets = self._incoming.assets.values()
            sharing = self._with.sharing
            places = sharing.settle(assets, self._keys, self._staging, own.kek_alias)
            uris = {plain: asset.uri for plain, asset in places.items()}
            settled = manifest.settled(self._manifest, uris)
            self._check_variants(settled)
            sealed = {
                scope: variant.recorded() for scope, variant in self._incoming.variants.items()
            }
            composed = compose(settled, sealed, own, self._keys, tuple(places.values()))
            admit()
            place = self._with.versions.publish(self._staging, composed, own)
            self._room.published()
            sharing.note(assets, places, place, own.kek_alias)
        self.abort()
        return Imported(self.name, self.version, place.number, self._lineage.package_id)

    def _drop_arriving(self) -> None:
        if self._arriving is not None:
            self._arriving[1].close()

    def _complete(self) -> None:
        """Seal the end of the payload that was arriving."""
        if self._arriving is None:
            return
        holder, arriving = self._arriving
        with during("seal", **self._place()):
            holder.accept(arriving.finish())
        self._arriving = None

    def _check_complete(self, count: int) -> None:
        came = self._incoming.count
        if count != came:
            raise InvalidPackageError(f"{came} payloads came, {count} were sent")

    def _check_variants(self, settled: manifest.Object) -> None:
        for (component, variant), incoming in self._incoming.variants.items():
            if not incoming.count and not named(manifest.info(settled, component, variant)):
                error = InvalidPackageError("the variant has no payload")
                raise error.at(component=component, variant=variant)
            self._staging.create_variant(component, variant)

    def _place(self) -> dict[str, str]:
        if self._arriving is None:
            return {}
        announced = self._arriving[1].announced
        scope = {"component": announced.component, "variant": announced.variant}
        return {**scope, "payload": announced.name}
