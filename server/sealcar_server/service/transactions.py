"""The writing of one variant: begun, filled by sinks, then published whole or thrown away."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidRequestError, WrongStateError
from sealcar_server.sealing.values import RecordPayload
from sealcar_server.sealing.writer import SealedWriter
from sealcar_server.service import naming
from sealcar_server.service.arriving import file_size
from sealcar_server.service.failing import during, place_of
from sealcar_server.service.quotas import Portion
from sealcar_server.service.values import PayloadValue
from sealcar_server.service.writing import PayloadSink, identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.access.principal import Principal
    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.writer import SealedSize
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.quotas import Claim
    from sealcar_server.service.values import ScopeKey
    from sealcar_server.store.interface import Staging

ID_SIZE: Final = 16


class Transaction:
    """One variant being written; safe to share between threads.

    Attributes:
        id: 16 random bytes.
        principal: whose it is.
        scope: what is written; its generation is the one it is based on.
    """

    def __init__(
        self,
        principal: Principal,
        scope: ScopeKey,
        base: OpenedPackage,
        *,
        opener: Opener,
        staging: Staging,
        room: Claim,
    ) -> None:
        self.id: Final = os.urandom(ID_SIZE)
        self.principal, self.scope = principal, scope
        self.staging: Final = staging
        self._opener, self._room = opener, room
        self._portions: dict[str, Portion] = {}
        self._base: OpenedPackage | None = base
        self._changed = threading.Condition()
        self._state = "open"
        self._abort_wanted = False
        self._names = naming.NameSet()
        self._open: set[str] = set()
        self._written: dict[str, RecordPayload] = {}
        self._result: ScopeKey | None = None
        self._used = time.monotonic()

    @property
    def base(self) -> OpenedPackage:
        """The generation it is based on; let go at the end, since it may be large.

        Raises:
            WrongStateError: the transaction has ended.
        """
        base = self._base
        if base is None:
            raise WrongStateError(f"the transaction is {self._state}")
        return base

    @property
    def ended(self) -> bool:
        """True once it is committed or aborted."""
        return self._state in {"committed", "aborted"}

    @property
    def committed(self) -> bool:
        """True once it is published."""
        return self._state == "committed"

    def create(self, name: str, kind: str, size: int | None = None) -> PayloadSink:
        """Begin a payload.

        Raises:
            InvalidNameError, InvalidRequestError: the name or kind breaks a rule.
            AlreadyExistsError: the name was written before.
            WrongStateError: the transaction has ended.
            ExhaustedError, StorageError: it can't be written, or a quota has no room for it.
            KeyRefusedError, KeyUnavailableError: the package's key can't be had.
        """
        scope = self.scope
        with during("write", payload=name, **place_of(scope)):
            naming.payload(name, kind)
            with self._changed:
                self._require_open()
            # asking for the key may take long: nobody waits for it
            key = self._opener.payload_key(self.base, scope.component, scope.variant, name)
            with self._changed:
                self._require_open()
                self._names.claim(name)
                self._open.add(name)
            try:
                portion = self._portions[name] = Portion(
                    self._room, 0 if size is None else file_size(size)
                )
                writer = self._start(name, key, portion)
            except BaseException:
                self._forget(name)
                raise
        return PayloadSink(
            writer,
            size,
            accept=lambda sealed: self._accept(name, kind, sealed),
            drop=lambda: self._forget(name),
        )

    def commit(self, payloads: int, publish: Callable[[list[RecordPayload]], ScopeKey]) -> ScopeKey:
        """Publish once, whoever asks how often; every caller gets the one answer.

        Raises:
            WrongStateError: it was aborted, or a payload is still being written.
            InvalidRequestError: another number of payloads was written, or none is a model.
            SealcarError: whatever `publish` raises; the transaction is open again then.
        """
        with self._changed:
            while self._state == "committing":
                self._changed.wait()
            if self._result is not None:
                return self._result
            written = self._complete(payloads)
            self._state = "committing"
        try:
            result = publish(written)
        except BaseException:
            self._leave_commit(None)
            raise
        self._leave_commit(result)
        return result

    def abort(self) -> None:
        """Throw it away; fine if it has ended. A commit under way takes its course."""
        with self._changed:
            if self._state == "committing":
                self._abort_wanted = True
            elif self._state == "open":
                self._discard()

    def idle(self, now: float) -> float:
        """Return for how many seconds nobody has used it."""
        with self._changed:
            return 0.0 if self._open or self._state == "committing" else now - self._used

    def _start(self, name: str, key: PayloadKey, portion: Portion) -> SealedWriter:
        with self._changed:
            self._require_open()
            fd = self.staging.create_payload(self.scope.component, self.scope.variant, name)
        return SealedWriter(fd, key, portion.write)

    def _accept(self, name: str, kind: str, sealed: SealedSize) -> PayloadValue:
        payload = RecordPayload(name, kind, sealed.plain_size, commitment=sealed.commitment)
        with self._changed:
            self._require_open()
            self._open.discard(name)
            self._written[name] = payload
        return PayloadValue(name, kind, payload.size, sealed=True, identity=identity(payload))

    def _forget(self, name: str) -> None:
        with self._changed:
            self._used = time.monotonic()
            self._open.discard(name)
            portion = self._portions.pop(name, None)
            if portion is not None:
                portion.drop()
            if self._state == "open":
                self._names.release(name)
                self.staging.remove_payload(self.scope.component, self.scope.variant, name)

    def _complete(self, payloads: int) -> list[RecordPayload]:
        self._require_open()
        if self._open:
            raise WrongStateError(f"payload {min(self._open)!a} is still being written")
        written = list(self._written.values())
        if len(written) != payloads:
            raise InvalidRequestError(f"{len(written)} payloads were written, not {payloads}")
        if not any(payload.kind == "model" for payload in written):
            raise InvalidRequestError("a variant needs at least one payload of kind model")
        return written

    def _leave_commit(self, result: ScopeKey | None) -> None:
        with self._changed:
            self._result = result
            self._used = time.monotonic()
            self._changed.notify_all()
            if result is not None:
                self._end("committed")
            elif self._abort_wanted:
                self._discard()
            else:
                self._state = "open"

    def _discard(self) -> None:
        self._end("aborted")
        self.staging.discard()

    def _end(self, state: str) -> None:
        self._state = state
        if state == "committed":
            self._room.published()
        self._room.close()
        self._portions.clear()
        self._base = None
        self._names = naming.NameSet()
        self._written.clear()

    def _require_open(self) -> None:
        if self._state != "open":
            raise WrongStateError(f"the transaction is {self._state}")
        self._used = time.monotonic()
