"""The policy in force: read again when its file changes, all of it or nothing.

A file that can't be used leaves the grants as they were, and says so until it is repaired.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import ConfigurationError
from sealcar_server.access.changes import signature

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.access.bounds import Quota
    from sealcar_server.access.policy import Policy, Right
    from sealcar_server.access.principal import Principal

_log: Final = structlog.get_logger("sealcar.policy")


class LivePolicy:
    """Decides as `Policy` does, by the newest one that could be read. Thread-safe.

    Args:
        file: of the policy; links are followed, so a swapped link is a change too.
        load: reads and checks it.
        on_loaded: told the generation, counted from 1, and whether the file can't be used.

    Raises:
        ConfigurationError: it is wrong from the start.
    """

    def __init__(
        self,
        file: Path,
        load: Callable[[], Policy],
        on_loaded: Callable[[int, bool], None] = lambda _generation, _broken: None,
    ) -> None:
        self._file, self._load, self._on_loaded = file, load, on_loaded
        self._loading = threading.Lock()
        self._followers: list[Callable[[], None]] = []
        self._seen = self._settling = signature(self._file)
        # one reference, replaced whole: a decision never mixes two files
        self._in_force = (1, load())
        self._broken = False
        on_loaded(1, False)  # noqa: FBT003  (a hook, called with what it is told)

    @property
    def generation(self) -> int:
        """How many times the file has been read well."""
        return self._in_force[0]

    @property
    def broken(self) -> bool:
        """Whether the file can't be used, and an older policy is in force."""
        return self._broken

    def allows(self, principal: Principal, right: Right, package: str, component: str = "") -> bool:
        """Tell whether a grant allows it. An empty component means the whole package."""
        return self._in_force[1].allows(principal, right, package, component)

    def stands(
        self, _since: int, principal: Principal, right: Right, package: str, component: str = ""
    ) -> bool:
        """Tell whether it is allowed still: only what is in force now counts."""
        return self.allows(principal, right, package, component)

    def require(self, principal: Principal, right: Right, package: str, component: str = "") -> str:
        """Return the name of the grant that allows it, with the generation it was decided in.

        Raises:
            DeniedError: no grant does, but the caller may list the package.
            NotFoundError: the caller may not even know whether the package exists.
        """
        generation, policy = self._in_force
        return f"{policy.require(principal, right, package, component)} of policy {generation}"

    def least(self, package: str, version: str) -> int:
        """Return the least generation that is opened; 0 if no pin says."""
        return self._in_force[1].least(package, version)

    def quotas(self, package: str) -> tuple[Quota, ...]:
        """Return every quota that a package counts for."""
        return self._in_force[1].quotas(package)

    def follow(self, changed: Callable[[], None]) -> None:
        """Call this, on the thread that reloads, whenever another policy is in force."""
        self._followers.append(changed)

    def look(self) -> None:
        """Read the file again if it isn't the one that was read last. Called now and then.

        Not before two looks have seen the same: a file that is being written may be a policy by
        accident, without the grants that are still to come.
        """
        found = signature(self._file)
        if found == self._seen:
            self._settling = self._seen
        elif found != self._settling:
            self._settling = found
        else:
            self.reload()

    def reload(self) -> bool:
        """Read the file again now; False: it can't be used, and nothing has changed."""
        with self._loading:
            # taken before reading: what is written meanwhile is seen the next time
            self._seen = signature(self._file)
            generation = self._in_force[0]
            try:
                policy = self._load()
            except ConfigurationError as error:
                self._broken = True
                _log.error("policy not reloaded", reason=error.message, generation=generation)
                self._on_loaded(generation, True)  # noqa: FBT003  (as above)
                return False
            self._in_force = (generation + 1, policy)
            self._broken = False
            _log.info("policy reloaded", generation=generation + 1, grants=len(policy.grants))
            self._on_loaded(generation + 1, False)  # noqa: FBT003  (as above)
        for changed in self._followers:
            changed()
        return True
