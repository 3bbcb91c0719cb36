"""What is accounted for: decisions, uses of keys, and what operators do."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

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


class Trail:
    """Writes a line for each; without a log, none.

    Attributes:
        log: set once it is there: its own first key needs a key provider, which is watched too.
    """

    def __init__(self, log: AuditLog | None = None) -> None:
        self.log = log

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

    def refused(self, principal: Principal, rule: str) -> None:
        """Account for a caller that wasn't let in at all.

        Raises:
            StorageError: it can't be accounted for.
        """
        values = {**principal.described, "right": "connect", "rule": rule}
        self._write("decision", values, "refused", None)

    def note(self, event: str, **values: str | int | bool | None) -> None:
        """Account for something that happened.

        Raises:
            StorageError: it can't be accounted for.
        """
        if self.log is not None:
            self.log.write(event, values, at_once=True)

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
