"""The steps by which a daemon gives up what it will not need, in their order, and how each went.

What a kernel can't do isn't done: that is logged, and fatal only if the settings require the step.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import RuntimeSupportError
from sealcar_server.hardening import capabilities, kernel, landlock, process, reach, seccomp

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.settings import Settings

_PR_SET_NO_NEW_PRIVS: Final = 38
_log: Final = structlog.get_logger("sealcar.hardening")


@dataclass(frozen=True)
class Step:
    """How one step went.

    Attributes:
        name: of the step.
        state: "on", "off" (so the settings have it) or "unavailable".
        reason: why it isn't on, or what of it isn't; empty: all of it is on.
    """

    name: str
    state: str
    reason: str = ""


class Confinement:
    """All steps, once each.

    Args:
        settings: say what the daemon needs, and which steps are required, wanted or left out.

    Attributes:
        steps: how those went that were taken.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.steps: list[Step] = []

    def begin(self) -> None:
        """Take the steps that must come before any other thread starts.

        Raises:
            ConfigurationError, StorageError: a directory of the daemon can't be made.
            RuntimeSupportError: a step that is required can't be taken.
        """
        wanted = self._settings.hardening
        self.steps += (Step(name, "on") for name in process.STEPS)
        self._take("no new privileges", "on", lambda: kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1))
        listeners = self._settings.listen.values()
        groups = {one.group for one in listeners if one.group is not None}
        self._take("capabilities", wanted.capabilities, lambda: capabilities.drop(groups))
        reach.make_folders(self._settings)
        self._take("landlock", wanted.landlock, self._restrict)

    def complete(self) -> None:
        """Take the last step, when everything has started, and log them all.

        Raises:
            RuntimeSupportError: it is required and can't be taken.
        """
        self._take("seccomp", self._settings.hardening.seccomp, seccomp.deny)
        for step in self.steps:
            reason = {"reason": step.reason} if step.reason else {}
            tell = _log.info if step.state == "on" else _log.warning
            tell("hardening", step=step.name, state=step.state, **reason)

    def _take(self, name: str, wanted: str, act: Callable[[], object]) -> None:
        if wanted == "off":
            self.steps.append(Step(name, "off", f'hardening.{name} is "off"'))
            return
        try:
            less = act()
        except OSError as error:
            reason = f"the kernel refuses: {error.strerror}"
            if wanted == "require":
                raise RuntimeSupportError(
                    f'hardening.{name} is "require", and {reason}; remedy: another kernel or '
                    f'container runtime, or hardening.{name} = "on"'
                ) from error
            self.steps.append(Step(name, "unavailable", reason))
        else:
            self.steps.append(Step(name, "on", less if isinstance(less, str) else ""))

    def _restrict(self) -> str:
        version = landlock.version()
        if version < landlock.OLDEST:
            raise OSError(0, f"its Landlock is of version {version}, {landlock.OLDEST} is needed")
        if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208  (names are enough)
            raise OSError(0, "other threads run already")
        needed = reach.of(self._settings)
        restricted = landlock.Port.BIND if needed.anywhere else ~landlock.Port(0)
        with landlock.Ruleset(version, restricted) as rules:
            for path, rights in needed.places:
                rules.allow(path, rights)
            for port in needed.bind:
                rules.allow_port(port, landlock.Port.BIND)
            for port in needed.connect:
                rules.allow_port(port, landlock.Port.CONNECT)
            rules.restrict()
        return _what_is_missing(version, needed)


def _what_is_missing(version: int, needed: reach.Reach) -> str:
    if version < landlock.NET:
        return f"version {version} of Landlock doesn't restrict TCP"
    if needed.anywhere:
        keys = ", ".join(f"keys.{alias}" for alias in needed.anywhere)
        return f"connecting by TCP isn't restricted: nobody knows what {keys} may need"
    return ""
