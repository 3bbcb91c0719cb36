"""Takes a package in: its payloads are sealed while they arrive, then published together."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidNameError,
    InvalidPackageError,
    WrongStateError,
)
from sealcar_server.keys.provider import package_context
from sealcar_server.sealing.derivation import ID, KEY, PackageKeys
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.secret import SecretBuffer
from sealcar_server.service import manifest, naming
from sealcar_server.service.arriving import Arriving, check_size
from sealcar_server.service.composing import Lineage, compose
from sealcar_server.service.failing import during
from sealcar_server.service.metering import UNMETERED, Meter, timed
from sealcar_server.service.values import Announced, Imported
from sealcar_server.store.places import store_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from sealcar_server.sealing.values import RecordPayload
    from sealcar_server.service.composing import Composed
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.values import ImportPlan
    from sealcar_server.store.local import LocalStore

_FIRST_VERSION: Final = "1"


class ImportSession:
    """One package on its way in. For one thread; aborted on leaving unless finished.

    Args:
        plan: what the caller asked for, its name checked.
        store, keyring, opener, pointers: of the daemon.
        meter: is told the seconds of "seal".

    Raises:
        InvalidPackageError: the manifest breaks a rule.
        AlreadyExistsError: the version was imported before.
        KeyRefusedError, KeyUnavailableError: the package's key can't be wrapped.
        ExhaustedError, StorageError: nothing can be staged.
    """

    def __init__(
        self,
        plan: ImportPlan,
        *,
        store: LocalStore,
        keyring: Custody,
        opener: Opener,
        pointers: Pointers,
        meter: Meter = UNMETERED,
    ) -> None:
        self._opener, self._pointers, self._meter = opener, pointers, meter
        self._manifest = manifest.prepare(plan.manifest_json)
        self.name = plan.name
        self.version = plan.version or _default_version(self._manifest)
        number = opener.first_number(self.name, self.version)
        pointers.refuse_forged(self.name)
        scopes = manifest.scopes(self._manifest)
        self._names = {scope: naming.NameSet() for scope in scopes}
        self._payloads: dict[tuple[str, str], list[RecordPayload]] = {s: [] for s in scopes}
        self._arriving: Arriving | None = None
        self._scratch = Scratch()
        alias = plan.kek_alias or store.identity.kek_alias
        self._lineage, self._keys = _new_package((self.name, self.version, number), keyring, alias)
        try:
            self._staging = store.stage(self.name, self.version)
        except BaseException:
            self._keys.close()
            raise
        self._ended = False

    def payload(self, component: str, variant: str, name: str, kind: str, size: int) -> None:
        """Announce the next payload; its bytes follow.

        Raises:
            InvalidPackageError: unknown scope, or the payload before is incomplete.
            InvalidNameError, AlreadyExistsError: the name breaks a rule, or is taken.
            ExhaustedError, StorageError: it can't be written. Any error ends the import.
        """
        with self._step(component=component, variant=variant, payload=name):
            self._complete()
            if (component, variant) not in self._names:
                raise InvalidPackageError("the manifest has no such component and variant")
            naming.payload(name, kind)
            check_size(size)
            self._names[component, variant].claim(name)
            fd = self._staging.create_payload(component, variant, name)
            announced = Announced(component, variant, name, kind, size)
            self._arriving = Arriving(announced, fd, keys=self._keys, scratch=self._scratch)

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
            self._arriving.feed(data)

    def finish(self, count: int) -> Imported:
        """Publish the package and make its version the current one.

        Raises:
            InvalidPackageError: another number of payloads came, or a variant got none.
            AlreadyExistsError: another import of this version was faster.
            ExhaustedError, StorageError: it can't be written. Any error ends the import.
        """
        with self._step():
            self._complete()
            self._check_complete(count)
            sealed = {scope: tuple(items) for scope, items in self._payloads.items()}
            composed = compose(self._manifest, sealed, self._lineage, self._keys)
            number = self._lineage.generation
            with self._pointers.moving(self.name, self.version, number):
                self._publish(composed, number)
        self.abort()
        return Imported(self.name, self.version, number, self._lineage.package_id)

    def abort(self) -> None:
        """Throw away what is not published, and every secret; twice is fine."""
        if self._ended:
            return
        self._ended = True
        self._keys.close()
        self._scratch.wipe()
        if self._arriving is not None:
            self._arriving.close()
        self._staging.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    def _complete(self) -> None:
        """Seal the end of the payload that was arriving."""
        if self._arriving is None:
            return
        with during("seal", **self._place()):
            sealed = self._arriving.finish()
        announced = self._arriving.announced
        self._payloads[announced.component, announced.variant].append(sealed)
        self._arriving = None

    def _check_complete(self, count: int) -> None:
        came = sum(map(len, self._payloads.values()))
        if count != came:
            raise InvalidPackageError(f"{came} payloads came, {count} were sent")
        for (component, variant), payloads in self._payloads.items():
            if not payloads:
                error = InvalidPackageError("the variant has no payload")
                raise error.at(component=component, variant=variant)

    def _publish(self, composed: Composed, number: int) -> None:
        faster = AlreadyExistsError("another import of this version was faster")
        if self._opener.last_removed(self.name, self.version) >= number:
            # it was removed again, and its number isn't used twice
            raise faster
        try:
            place = self._staging.publish(composed.manifest, number)
        except ConflictError as error:
            raise faster from error
        self._opener.saw(place, composed.digest)

    def _place(self) -> dict[str, str]:
        if self._arriving is None:
            return {}
        announced = self._arriving.announced
        scope = {"component": announced.component, "variant": announced.variant}
        return {**scope, "payload": announced.name}

    @contextmanager
    def _step(self, **place: str) -> Iterator[None]:
        with during("seal", package=self.name, version=self.version, **place):
            if self._ended:
                raise WrongStateError("the import has ended")
            try:
                yield
            except BaseException:
                self.abort()
                raise


def _new_package(
    place: tuple[str, str, int], keyring: Custody, alias: str
) -> tuple[Lineage, PackageKeys]:
    name, version, number = place
    package_id = os.urandom(ID)
    root = SecretBuffer.random(KEY)
    try:
        wrapped = keyring.wrap(alias, root, package_context(package_id))
    except BaseException:
        root.close()
        raise
    lineage = Lineage(name, version, package_id, number, b"", alias, wrapped.version, wrapped.blob)
    return lineage, PackageKeys(root, package_id)


def _default_version(prepared: manifest.Object) -> str:
    """Return the publisher's version if it can be one of the store, else "1"."""
    version = prepared.get("package_version")
    try:
        return store_version(version) if isinstance(version, str) else _FIRST_VERSION
    except InvalidNameError:
        return _FIRST_VERSION
