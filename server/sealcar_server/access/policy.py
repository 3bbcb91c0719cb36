"""The policy: which principal has which rights on which packages. What no grant allows is refused.

Whoever may not list a package can't tell a forbidden one from one that doesn't exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from sealcar.errors import DeniedError, NotFoundError
from sealcar.names import shown
from sealcar_server.access import policy_file
from sealcar_server.access.bounds import Bounds
from sealcar_server.access.grants import Grant, Right
from sealcar_server.access.spiffe import domain_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.access.bounds import Pin, Quota
    from sealcar_server.access.principal import Principal

__all__ = ["BoundedRules", "Grant", "Policy", "Right", "Rules", "unknown_package"]


class Rules(Protocol):
    """What decides who may."""

    @property
    def generation(self) -> int:
        """Different whenever another answer is possible."""

    def allows(self, principal: Principal, right: Right, package: str, component: str = "") -> bool:
        """Tell whether a grant allows it. An empty component means the whole package."""

    def stands(
        self, since: int, principal: Principal, right: Right, package: str, component: str = ""
    ) -> bool:
        """Tell whether what was allowed in an earlier generation is allowed still, or raise."""

    def require(self, principal: Principal, right: Right, package: str, component: str = "") -> str:
        """Return the name of the grant that allows it, or raise."""


class BoundedRules(Rules, Bounds, Protocol):
    """A whole policy."""


def _nothing(_kind: str) -> None:
    pass


@dataclass(frozen=True)
class Policy:
    """Every rule of a policy file.

    `on_denied` is told the kind of each refusal: "unknown" or "right".
    """

    grants: tuple[Grant, ...]
    on_denied: Callable[[str], None] = field(default=_nothing, repr=False, compare=False)
    pins: tuple[Pin, ...] = ()
    all_quotas: tuple[Quota, ...] = ()

    @classmethod
    def load(cls, path: Path, *, on_denied: Callable[[str], None] = _nothing) -> Self:
        """Read a policy file that only the daemon's user and root can write.

        Raises:
            ConfigurationError: it can't be read, others can write it, or a rule is wrong.
        """
        rules = policy_file.read(path)
        return cls(rules.grants, on_denied, rules.pins, rules.quotas)

    @property
    def generation(self) -> int:
        """The grants never change."""
        return 0

    def deciding(
        self, principal: Principal, right: Right, package: str, component: str = ""
    ) -> int | None:
        """Return the place, from 1, of the first grant that allows it; None if none does."""
        listing = right is Right.LIST
        for at, grant in enumerate(self.grants, 1):
            if grant.gives(right) and grant.covers(principal, package, component, listing=listing):
                return at
        return None

    def allows(self, principal: Principal, right: Right, package: str, component: str = "") -> bool:
        """Tell whether a grant allows it. An empty component means the whole package."""
        return self.deciding(principal, right, package, component) is not None

    def stands(
        self, _since: int, principal: Principal, right: Right, package: str, component: str = ""
    ) -> bool:
        """Tell the same: the grants never change."""
        return self.allows(principal, right, package, component)

    def require(self, principal: Principal, right: Right, package: str, component: str = "") -> str:
        """Return the name of the grant that allows it.

        Raises:
            DeniedError: no grant does, but the caller may list the package.
            NotFoundError: the caller may not even know whether the package exists.
        """
        place = self.deciding(principal, right, package, component)
        if place is not None:
            return f"grant {place}"
        if self.allows(principal, Right.LIST, package, component):
            self.on_denied("right")
            what = f"package {package}" + (f", component {shown(component)}" if component else "")
            raise DeniedError(
                f"no grant of the policy gives {principal} the right {right.value!r} on {what}"
            )
        self.on_denied("unknown")
        raise unknown_package(package)

    def least(self, package: str, version: str) -> int:
        """Return the least generation that is opened; 0 if no pin says."""
        return max((pin.least for pin in self.pins if pin.is_about(package, version)), default=0)

    def quotas(self, package: str) -> tuple[Quota, ...]:
        """Return every quota that a package counts for."""
        return tuple(quota for quota in self.all_quotas if quota.is_about(package))

    def trust_domains(self) -> set[str]:
        """Return the trust domains of the SPIFFE IDs that grants name."""
        return {domain_of(grant.spiffe) for grant in self.grants if grant.spiffe}

    def names_uid(self, uid: int) -> bool:
        """Tell whether a grant names this uid."""
        return any(grant.uid == uid for grant in self.grants)


def unknown_package(package: str) -> NotFoundError:
    """Return the one error for a package that doesn't exist and for one that is forbidden."""
    return NotFoundError(f"no package {shown(package)}, or none that the caller may know of")
