"""What is accounted for: decisions, uses of keys, and what operators do."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from sealcar.errors import RolledBackError, StorageError
from sealcar_server.access.audit.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar_server.access.audit.log import AuditLog
    from sealcar_server.access.policy import Right
    from sealcar_server.access.principal import Principal

DONE: Final = "done"
_MAX_TEXT: Final = 200  # of a name that a caller sent; valid ones of packages are shorter


@dataclass
class Entry:
    """One decision while it is made.

    Attributes:
        who: the caller.
        what: right and place, as asked for, then as resolved.
        rule: the grant that decided; None: no grant did.
    """

    who: Mapping[str, Any]
    what: dict[str, Any]
    rule: str | None = None
    key: dict[str, str] = field(default_factory=dict)

    def resolved(self, version: str, generation: int) -> None:
        """Note which generation it came down to."""
        self.what |= {"version": version, "generation": generation}

    def used(self, alias: str, version: str) -> None:
        """Note the key-encryption key that the package's key is under."""
        self.key = {"alias": alias, "version": version}


_current: Final[ContextVar[Entry | None]] = ContextVar("audit", default=None)


class Counters(Protocol):
    """Takes the figures of what is refused."""

    def refused(self, reason: str, /) -> None:
        """Count a caller that was refused before anything was decided."""

    def rolled_back(self) -> None:
        """Count an older or forked generation, or pointer, that was refused."""


class _NoCounters:
    def refused(self, _reason: str) -> None:
        """Count nothing."""

    def rolled_back(self) -> None:
        """Count nothing."""


class Trail:
    """Writes a line for each; without a log, none.

    Args:
        log: where to.
        counters: told of refusals.

    Attributes:
        log: set once it is there: its own first key needs a key provider, which is watched too.
    """

    def __init__(self, log: AuditLog | None = None, counters: Counters | None = None) -> None:
        self.log = log
        self._counters = counters or _NoCounters()
        self._refusals = Refusals(self._refused)

    def lag(self) -> float:
        """Return for how many seconds the oldest line waits that may not be on the disk yet."""
        return self.log.lag if self.log is not None else 0.0

    @contextmanager
    def decision(self, principal: Principal, right: Right, **place: str | int) -> Iterator[Entry]:
        """Account for a decision and what came of it, before whoever asked hears of it.

        Raises:
            StorageError: it can't be accounted for.
        """
        what = {name: _cut(value) for name, value in place.items() if value}
        entry = Entry(principal.described, {"right": right.value, **what})
        token = _current.set(entry)
        begun = time.monotonic()
        outcome = DONE
        try:
            yield entry
        except BaseException as error:
            outcome = type(error).__name__
            if isinstance(error, RolledBackError):
                self._rolled_back(entry, error)
            raise
        finally:
            _current.reset(token)
            key = {"key": entry.key} if entry.key else {}
            values = {**entry.who, **entry.what, **key, "rule": entry.rule}
            self._write("decision", values, outcome, begun)

    @contextmanager
    def key_use(self, operation: str, alias: str, version: str) -> Iterator[None]:
        """Account for what a key provider is asked, and for whom; it lasts before the key is used.

        Raises:
            StorageError: it can't be accounted for.
        """
        entry = _current.get()
        asked = {**entry.who, **entry.what} if entry else {}
        key = {"operation": operation, "alias": alias, "key_version": version}
        with self._accounted("key", {**asked, **key}):
            yield

    @contextmanager
    def operation(self, method: str, announced: bool) -> Iterator[None]:  # noqa: FBT001  (a hook's)
        """Account for what an operator asks over the admin socket.

        Args:
            method: its name.
            announced: a line lasts before it begins, too: what it sends can't be taken back.

        Raises:
            StorageError: it can't be accounted for.
        """
        if announced:
            self._write("operator", {"method": method}, "begun", None, at_once=True)
        with self._accounted("operator", {"method": method}):
            yield

    def refused(self, principal: Principal, reason: str) -> None:
        """Account for a caller that was refused before anything was decided."""
        self._counters.refused(reason)
        self._refusals.note(principal.described, reason)

    def refused_account(self, account: str, reason: str) -> None:
        """Account for one of whom only his account is known; as `refused`."""
        self._counters.refused(reason)
        self._refusals.note({"account": account}, reason)

    def flush(self, *, all_of_it: bool = False) -> None:
        """Write what refusals were counted. Called once a second, and at the end."""
        self._refusals.flush(all_of_it=all_of_it)

    def note(self, event: str, **values: str | int | bool | None) -> None:
        """Account for something that happened.

        Raises:
            StorageError: it can't be accounted for.
        """
        if self.log is not None:
            self.log.write(event, values, at_once=True)

    def _refused(self, who: Mapping[str, Any], reason: str, count: int) -> None:
        # that it can't be written is logged, and refuses all requests; this one is refused anyway
        with suppress(StorageError):
            self._write("refused", {**who, "reason": reason, "count": count}, "refused", None)

    def _rolled_back(self, entry: Entry, error: RolledBackError) -> None:
        self._counters.rolled_back()
        values = {**entry.who, **entry.what, "reason": error.message}
        self._write("rolled-back", values, "refused", None)

    @contextmanager
    def _accounted(self, event: str, values: Mapping[str, Any]) -> Iterator[None]:
        begun = time.monotonic()
        outcome = DONE
        try:
            yield
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            self._write(event, values, outcome, begun, at_once=True)

    def _write(
        self,
        event: str,
        values: Mapping[str, Any],
        outcome: str,
        begun: float | None,
        *,
        at_once: bool = False,
    ) -> None:
        if self.log is None:
            return
        spent = {} if begun is None else {"seconds": round(time.monotonic() - begun, 6)}
        self.log.write(event, {**values, "outcome": outcome, **spent}, at_once=at_once)


UNAUDITED: Final = Trail()


def _cut(value: str | int) -> str | int:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}…"
    return value
