"""What reads and writes have in common: they end once, and only when no worker is inside."""

from __future__ import annotations

import abc
import threading
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import InternalError, SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.transfer.engine import Token

_log: Final = structlog.get_logger("sealcar.transfer")


class Flow(abc.ABC):
    """One transfer. Workers come and go with tokens; whoever leaves last reports the end.

    Until the end is reported a worker may still touch the ring and send packets, so neither may
    be given away before.

    Args:
        ended: called once, from any thread: None for success, else what went wrong.

    Attributes:
        owner: with whom it shares turns.
    """

    owner: Hashable = None

    def __init__(self, ended: Callable[[SealcarError | None], None]) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._inside = 0
        self._request = structlog.contextvars.get_contextvars()
        self._over = False
        self._reported = False
        self._error: SealcarError | None = None

    def work(self, token: Token, scratch: Scratch) -> None:
        """Do one token's worth; failures end the transfer."""
        with self._lock:
            if self._over:
                return
            self._inside += 1
        try:
            if self._step(token, scratch):
                self._conclude(None)
        except SealcarError as error:
            self._conclude(error)
        except Exception:  # noqa: BLE001  (a worker must outlive whatever one transfer does)
            _log.exception("a transfer failed unexpectedly", **self._request)
            self._conclude(InternalError("the transfer failed unexpectedly"))
        finally:
            with self._lock:
                self._inside -= 1
            self._report()

    def stop(self, reason: SealcarError) -> None:
        """End it early; nothing happens if it has ended."""
        self._conclude(reason)
        self._report()

    @abc.abstractmethod
    def _step(self, token: Token, scratch: Scratch) -> bool:
        """Do one token's worth, and tell whether it was the last of all."""

    def _conclude(self, error: SealcarError | None) -> None:
        with self._lock:
            if not self._over:
                self._over = True
                self._error = error

    def _report(self) -> None:
        with self._lock:
            if not self._over or self._inside or self._reported:
                return
            self._reported = True
        self._ended(self._error)
