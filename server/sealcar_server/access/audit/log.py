"""The audit log as the daemon writes it: every line is in the file before the answer goes out.

A line costs one write to the page cache on the thread that has to account for something; making
lines last is another thread's, once an interval, but for lines that say that they can't wait.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import secrets
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from sealcar.errors import SealcarError, StorageError
from sealcar_server.access.audit.chain import Chain, Position, key_context, line_of, text_of
from sealcar_server.access.audit.files import Tail, name_of, open_for_writing, tail_of
from sealcar_server.sealing.derivation import KEY
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sealcar_server.access.audit.chain import SealedKey

_RETRY: Final = 60.0  # seconds after a new file couldn't be begun
_log: Final = structlog.get_logger("sealcar.audit")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How it is kept.

    Attributes:
        required: what can't be accounted for is refused; else it is done, and counted as lost.
        sync_interval: seconds between two times that lines are made to last.
        file_size: bytes after which a new file is begun.
    """

    required: bool = True
    sync_interval: float = 1.0
    file_size: int = 64 << 20


class AuditLog:
    """Appends to the newest file of a folder. Thread-safe.

    Args:
        folder: for the daemon alone, and for one daemon.
        seal: seals a chain's first key for a context.
        options: how.
        on_state: told the last line, and whether lines can be written, once an interval.

    Raises:
        SealcarError: the first line can't be written.
    """

    def __init__(
        self,
        folder: Path,
        seal: Callable[[SecretBuffer, bytes], SealedKey],
        options: Options,
        on_state: Callable[[Position, bool], None] = lambda _last, _writable: None,
    ) -> None:
        self._folder, self._seal, self._options, self._on_state = folder, seal, options, on_state
        self._instance: Final = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._dirty = self._broken = self._half = False
        self._lost = 0
        self._retry_at = 0.0
        self._dirty_since = 0.0
        self._syncing: list[float] = []
        try:
            self._begin(tail_of(folder))
        except OSError as error:
            raise self._unwritable(error) from error
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="audit", daemon=True)
        self._thread.start()

    @property
    def last(self) -> Position:
        """The last line that was written."""
        return self._last

    @property
    def writable(self) -> bool:
        """Whether the last attempt to write succeeded."""
        return not self._broken

    @property
    def lag(self) -> float:
        """For how many seconds the oldest line waits that may not be on the disk yet."""
        with self._lock:
            since = [*self._syncing, *([self._dirty_since] if self._dirty else [])]
        return time.monotonic() - min(since) if since else 0.0

    @property
    def required(self) -> bool:
        """Whether what can't be written is refused."""
        return self._options.required

    def write(self, event: str, values: Mapping[str, Any], *, at_once: bool = False) -> None:
        """Write a line; with `at_once` it lasts when this returns.

        Raises:
            StorageError: it can't be written, and the log is required.
        """
        try:
            with self._lock:
                lost = {"lost": self._lost} if self._lost else {}
                self._append(event, {**values, **lost})
                self._lost = 0
                self._dirtied()
            if at_once:
                self._sync()
        except OSError as error:
            self._failed(error)
            if self._options.required:
                raise self._unwritable(error) from error
            self._lost += 1

    def close(self) -> None:
        """Write the last line and make all of them last."""
        self._stopping.set()
        self._thread.join()
        with contextlib.suppress(StorageError):
            self.write("stopped", {}, at_once=True)
        self._chain.close()
        os.close(self._fd)

    def _begin(self, tail: Tail) -> None:
        """Go on where the log ended, with a key of our own: the one before is gone."""
        key, sealed = self._new_key()
        self._chain = Chain(key)
        self._last = tail.last
        values: dict[str, Any] = {"previous": tail.previous(), "key": sealed}
        full = tail.size >= self._options.file_size and not tail.rest
        new = tail.file is None or full
        self._path = tail.file or self._folder
        if new:
            self._path = self._folder / name_of(tail.last.sequence + 1)
        self._fd = open_for_writing(self._path, new=new)
        self._size = 0 if new else tail.size
        if tail.rest:
            values["torn"] = tail.torn()
            # the cut line is kept, on a line of its own
            if not tail.rest.endswith(b"\n"):
                self._size += os.write(self._fd, b"\n")
            _log.warning("the audit log ended in a cut line, which was kept", **values["torn"])
        self._append("recovered" if tail.rest else "started", values)
        os.fsync(self._fd)

    def _append(self, event: str, values: Mapping[str, Any]) -> None:
        if self._half:
            self._take_back()
        line, position = self._compose(event, values, self._chain)
        try:
            _put(self._fd, line)
        except OSError:
            self._half = True
            with contextlib.suppress(OSError):
                self._take_back()
            raise
        self._size += len(line)
        self._last = position
        self._chain.advance()
        if self._broken:
            self._broken = False
            _log.warning("the audit log can be written again")

    def _take_back(self) -> None:
        """Leave no half line between whole ones."""
        os.ftruncate(self._fd, self._size)
        self._half = False

    def _compose(
        self, event: str, values: Mapping[str, Any], chain: Chain
    ) -> tuple[bytes, Position]:
        sequence = self._last.sequence + 1
        text = text_of(
            {
                "sequence": sequence,
                "time": datetime.now(UTC).isoformat(timespec="microseconds"),
                "instance": self._instance,
                "event": event,
                **values,
            }
        )
        mac = chain.mac(text)
        return line_of(text, mac), Position(sequence, mac)

    def _dirtied(self) -> None:
        if not self._dirty:
            self._dirty, self._dirty_since = True, time.monotonic()

    def _sync(self) -> None:
        with self._lock:
            if not self._dirty:
                return
            # a copy: the file may be full, and closed, before this one is done
            fd = os.dup(self._fd)
            since = self._dirty_since
            self._syncing.append(since)
            self._dirty = False
        try:
            os.fsync(fd)
        except OSError:
            with self._lock:
                self._dirty, self._dirty_since = True, since
            raise
        finally:
            with self._lock:
                self._syncing.remove(since)
            os.close(fd)

    def _keep(self) -> None:
        while not self._stopping.wait(self._options.sync_interval):
            try:
                self._sync()
                if self._is_over() and time.monotonic() >= self._retry_at:
                    self._continue()
            except OSError as error:
                self._failed(error)
            except SealcarError as error:
                self._retry_at = time.monotonic() + _RETRY
                _log.warning("no new file of the audit log can be begun", reason=error.message)
            self._on_state(self._last, self.writable)

    def _is_over(self) -> bool:
        if os.fstat(self._fd).st_nlink == 0:
            _log.error("the audit log's file was removed: what was in it is lost")
            return True
        return self._size >= self._options.file_size

    def _continue(self) -> None:
        """Begin a new file, with a key of its own, so that it can be verified by itself."""
        key, sealed = self._new_key()
        chain = Chain(key)
        with self._lock:
            last = self._last
            previous = {"sequence": last.sequence, "mac": last.mac}
            values = {"previous": {"file": self._path.name, **previous}, "key": sealed}
            line, position = self._compose("continued", values, chain)
            path = self._folder / name_of(position.sequence)
            fd = open_for_writing(path, new=True)
            try:
                _put(fd, line)
                os.fsync(self._fd)
            except OSError:
                os.close(fd)
                path.unlink()
                raise
            os.close(self._fd)
            self._chain.close()
            chain.advance()
            self._path, self._fd, self._size = path, fd, len(line)
            self._chain, self._last = chain, position
            self._dirtied()

    def _new_key(self) -> tuple[SecretBuffer, dict[str, str]]:
        key = SecretBuffer.random(KEY)
        try:
            sealed = self._seal(key, key_context(self._instance))
        except BaseException:
            key.close()
            raise
        blob = base64.b64encode(sealed.blob).decode("ascii")
        return key, {"alias": sealed.alias, "version": sealed.version, "blob": blob}

    def _failed(self, error: OSError) -> None:
        if not self._broken:
            self._broken = True
            then = "requests are refused" if self._options.required else "lines are lost"
            _log.error("the audit log can't be written", reason=error.strerror, then=then)

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(
            f"the audit log can't be written ({error.strerror}), so nothing is served; "
            "make room or repair it",
            retry_after=5.0,
        )


def _put(fd: int, line: bytes) -> None:
    if os.write(fd, line) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
