"""Gets ready what the settings list, for whoever opens it next."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import LockedError, NotFoundError, SealcarError, UnavailableError
from sealcar_server.access.policy import Right
from sealcar_server.access.principal import Principal
from sealcar_server.service.gate import locked
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealcar.address import Address
    from sealcar_server.service.gate import Gate
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.prefetching import Prefetcher

_LISTED: Final = "prefetch.packages"  # what the audit log has for a grant
_log: Final = structlog.get_logger("sealcar.prefetch")


class _Operators:
    """What the settings list, whoever may run it: allowed unless the daemon is locked."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @property
    def generation(self) -> int:
        """Different whenever another answer is possible."""
        return self._gate.generation

    def allows(self, principal: Principal, right: Right, package: str, component: str = "") -> bool:
        """Tell that it is; LockedError."""
        del principal, package, component
        if self._gate.locked:
            raise locked()
        return right is Right.READ

    def stands(
        self, since: int, principal: Principal, right: Right, package: str, component: str = ""
    ) -> bool:
        """Tell whether it is still; LockedError, or why it was ended."""
        self._gate.refuse_ended(since, package)
        return self.allows(principal, right, package, component)

    def require(self, principal: Principal, right: Right, package: str, component: str = "") -> str:
        """Return what allows it; LockedError."""
        self.allows(principal, right, package, component)
        return _LISTED


class Standing:
    """What the settings say is wanted: got ready at the start, and after each unlocking.

    Args:
        prefetcher: does it.
        gate: says when nothing may be read.
        opener: says which variants there are.
    """

    def __init__(self, prefetcher: Prefetcher, gate: Gate, opener: Opener) -> None:
        self._prefetcher, self._opener, self._gate = prefetcher, opener, gate
        self._payloads = prefetcher.payloads.judged_by(_Operators(gate))
        self._wanted: Sequence[Address] = ()
        self._shared = False
        self._turn = threading.Lock()
        self._closing = threading.Event()

    def want(self, addresses: Sequence[Address], *, shared: bool) -> None:
        """Have these got ready from now on; call `begin` for it."""
        self._wanted, self._shared = addresses, shared

    def begin(self) -> None:
        """Begin with the list, on a thread of its own, unless there is none or it is locked."""
        if self._wanted and not self._gate.locked:
            threading.Thread(target=self._run, name="prefetch", daemon=True).start()

    def close(self) -> None:
        """End what is under way, and begin nothing more."""
        self._closing.set()
        with self._turn:
            pass

    def _run(self) -> None:
        with self._turn, suppress(LockedError):
            for address in self._wanted:
                if self._closing.is_set():
                    return
                with _warned():
                    for scope in self._scopes(address):
                        self._ready(scope)

    def _ready(self, scope: ScopeKey) -> None:
        me = Principal("", os.geteuid(), os.getegid())
        if self._closing.is_set():
            return
        with _warned():
            found = self._prefetcher.prefetch(
                me, scope, self._go_on, shared=self._shared, payloads=self._payloads
            )
            _log.info("got ready", payloads=found.payloads, bytes=found.size, shared=found.shared)

    def _scopes(self, address: Address) -> Sequence[ScopeKey]:
        opened = self._opener.open(address.name, address.version)
        place = opened.place
        found = [
            ScopeKey(place.name, place.version, one.component, one.variant, place.number)
            for one in opened.record.variants
            if address.component in ("", one.component) and address.variant in ("", one.variant)
        ]
        if not found:
            raise NotFoundError(f"{address} has no variant")
        return found

    def _go_on(self, _done: int, _total: int, _payload: str, /) -> None:
        if self._closing.is_set():
            raise UnavailableError("the daemon is stopping")


@contextmanager
def _warned() -> Iterator[None]:
    """Go on behind it whatever fails, but for a lock, which all the rest would fail at."""
    try:
        yield
    except LockedError:
        raise
    except SealcarError as error:
        _log.warning("a package isn't got ready", reason=str(error))
