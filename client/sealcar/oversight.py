"""What operators keep an eye on, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sealcar.v1 import admin_pb2 as pb


@dataclass(frozen=True)
class PolicyStatus:
    """The policy in force.

    Attributes:
        generation: how many times it has been read well since the daemon's start.
        broken: its file can't be used now; the one read before is in force.
    """

    generation: int
    broken: bool


@dataclass(frozen=True)
class AuditStatus:
    """The last line of the audit log.

    Attributes:
        sequence, mac: `sealcar audit verify` takes them.
        writable: the last attempt to write succeeded.
    """

    sequence: int
    mac: str
    writable: bool


@dataclass(frozen=True)
class HardeningStep:
    """One step by which the daemon gave up what it doesn't need.

    Attributes:
        step: for example "landlock".
        state: "on", "off" (so the settings have it) or "unavailable".
        reason: why it isn't on, or what of it isn't; empty: all of it is on.
    """

    step: str
    state: str
    reason: str


@dataclass(frozen=True)
class Oversight:
    """All of it; `audit` is None while there is no audit log."""

    policy: PolicyStatus
    audit: AuditStatus | None
    hardening: tuple[HardeningStep, ...]


def oversight(message: pb.AdminStatusResponse) -> Oversight:
    """Take all of it off the wire."""
    audit = message.audit
    return Oversight(
        PolicyStatus(message.policy.generation, message.policy.broken),
        AuditStatus(audit.sequence, audit.mac, audit.writable)
        if message.HasField("audit")
        else None,
        tuple(HardeningStep(each.step, each.state, each.reason) for each in message.hardening),
    )
