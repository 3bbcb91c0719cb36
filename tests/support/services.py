"""The daemon's service in this process: a real store, real keys, real seals, and no sockets."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Self

from sealcar.errors import AlreadyExistsError
from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.access.principal import Principal
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.key_pairs import public_key
from sealcar_server.keys.recipient import RecipientProvider
from sealcar_server.keys.ring import KeyRing
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.service.assembly import Limits, Service
from sealcar_server.service.custody import Custody
from sealcar_server.service.metering import UNMETERED, Meter
from sealcar_server.service.revocations import Revocations
from sealcar_server.service.store_key import create_store, new_identity
from sealcar_server.service.values import (
    CommitValues,
    Imported,
    ImportPlan,
    PayloadValue,
    ScopeKey,
)
from sealcar_server.service.writing import OrderedSealer
from sealcar_server.store.bucket.objects import Objects
from sealcar_server.store.bucket.options import Options
from sealcar_server.store.bucket.store import BucketStore
from sealcar_server.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from sealcar_server.keys.provider import KeyProvider
    from sealcar_server.service.checking import ModelChecker
    from sealcar_server.service.listing import Listing
    from sealcar_server.service.looking import Looking
    from sealcar_server.service.packages import Packages
    from sealcar_server.service.payloads import Payloads
    from sealcar_server.service.transactions import Transaction
    from sealcar_server.store.bucket.asking import Observer
    from sealcar_server.store.bucket.connection import Place
    from sealcar_server.store.interface import Store

ME = Principal("default", os.geteuid(), os.getegid())
SOMEBODY = Principal("default", 4_000_000, 4_000_000)
KEK = "main"
MODEL = bytes(range(256)) * 8192  # three segments


REFRESH: Final = 0.2  # seconds after which what others did in a bucket is noticed


def everything_for(*uids: int) -> Policy:
    rights = frozenset(Right)
    return Policy(tuple(Grant(uid, None, None, ("*",), None, rights) for uid in uids))


def manifest(*scopes: tuple[str, str], **fields: object) -> dict[str, Any]:
    components: dict[str, Any] = {}
    for component, variant in scopes:
        body = {"executor_info": {"ort": {"model_file": "model.onnx"}}}
        components.setdefault(component, {"variants": {}})["variants"][variant] = body
    return {"schema_version": "1.0", "package_name": "ocr", "components": components, **fields}


class Running:
    """A service over a directory; started again on the same directory it finds what is there."""

    def __init__(  # noqa: PLR0913  (one a kind of daemon)
        self,
        root: Path,
        *,
        policy: Policy | None = None,
        limits: Limits | None = None,
        meter: Meter = UNMETERED,
        checker: ModelChecker | None = None,
        more_keys: tuple[str, ...] = (),
        recipients: Mapping[str, bytes] | None = None,
        read_only: bool = False,
        place: Place | None = None,
        abandoned: float = 0,
        observer: Observer | None = None,
    ) -> None:
        self.root, self.store_path = root, root / "store"
        self._stack = ExitStack()
        kek, state = root / "kek", root / "state"
        state.mkdir(parents=True, exist_ok=True)
        provider = FileProvider(kek) if kek.exists() else FileProvider.create(kek)
        made = iter([provider])

        others = {alias: root / f"kek-{alias}" for alias in more_keys}
        for path in others.values():
            if not path.exists():
                FileProvider.create(path)

        def ring() -> KeyRing:
            more: dict[str, KeyProvider] = {
                alias: RecipientProvider(public_key(pem, alias), None, alias)
                for alias, pem in (recipients or {}).items()
            }
            more |= {alias: FileProvider(path) for alias, path in others.items()}
            return KeyRing({KEK: next(made, None) or FileProvider(kek), **more}, lifetime=60)

        self.keyring = self._stack.enter_context(Custody(ring, Revocations(state)))
        self.store = self._stack.enter_context(
            self._open(place, abandoned, observer, read_only=read_only)
        )
        self.service = Service.over(
            self.store,
            self.keyring,
            policy or everything_for(ME.uid),
            state=state,
            limits=limits,
            meter=meter,
            checker=checker,
        )
        self._stack.callback(self.service.close)
        self.scratch = Scratch()

    def _open(
        self, place: Place | None, abandoned: float, observer: Observer | None, *, read_only: bool
    ) -> Store:
        if place is None:
            found = (self.store_path / "store.json").exists()
            if found:
                return LocalStore.open(self.store_path, read_only=read_only)
            return create_store(self.store_path, self.keyring, KEK)
        self.store_path.mkdir(mode=0o700, exist_ok=True)
        objects = Objects(place, observer)
        with suppress(AlreadyExistsError):
            BucketStore.create(objects, new_identity(self.keyring, KEK))
        options = Options(refresh=REFRESH, read_only=read_only, abandoned=abandoned)
        return BucketStore.open(self.store_path, objects, options)

    @property
    def listing(self) -> Listing:
        return self.service.listing

    @property
    def looking(self) -> Looking:
        return self.service.looking

    @property
    def packages(self) -> Packages:
        return self.service.packages

    @property
    def payloads(self) -> Payloads:
        return self.service.payloads

    def import_(
        self,
        name: str = "ocr",
        version: str = "1",
        *,
        payloads: dict[tuple[str, str, str], bytes] | None = None,
    ) -> Imported:
        """Import payloads by (component, variant, name); all of them are models."""
        payloads = payloads or {("det", "onnx", "model.onnx"): MODEL}
        text = json.dumps(manifest(*[(c, v) for c, v, _ in payloads]))
        plan = ImportPlan(name, version, text)
        with self.service.packages.import_(ME, plan) as session:
            for (component, variant, payload), data in payloads.items():
                session.payload(component, variant, payload, "model", len(data))
                for at in range(0, len(data), 1 << 20):
                    session.data(data[at : at + (1 << 20)])
            return session.finish(len(payloads))

    def read(self, scope: ScopeKey, name: str = "model.onnx") -> bytes:
        read = bytearray()
        with self.service.payloads.read(ME, scope, name, self.scratch) as source:
            for index in range(source.reader.layout.count):
                span = source.reader.read_segment(index, self.scratch)
                read += self.scratch.plain[: span.plain_size]
        return bytes(read)

    def begin(self, scope: ScopeKey) -> Transaction:
        return self.service.payloads.begin(ME, scope)

    def write(
        self, transaction: Transaction, name: str, data: bytes, kind: str = "model"
    ) -> PayloadValue:
        with transaction.create(name, kind, len(data)) as sink:
            sealer = OrderedSealer(sink.writer, self.scratch)
            sealer.feed(data)
            sealer.finish()
            return sink.finish()

    def commit(self, transaction: Transaction, payloads: int = 1, **values: str) -> ScopeKey:
        return self.service.payloads.commit(ME, transaction.id, CommitValues(payloads, **values))

    def add_variant(self, scope: ScopeKey, data: bytes = b"compiled") -> ScopeKey:
        transaction = self.begin(scope)
        self.write(transaction, "model.onnx", data)
        return self.commit(transaction)

    def generation(self, name: str = "ocr", version: str = "1", number: int = 1) -> Path:
        return self.store_path / name / version / "g" / str(number)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
