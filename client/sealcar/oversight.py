"""What operators keep an eye on, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
class StoreStatus:
    """Where packages are.

    Attributes:
        bucket: for example "s3://models/sealcar"; empty: a directory of the daemon's machine.
        failure: why it can't be reached, as the daemon was told just now; empty: it can.
    """

    bucket: str
    failure: str


@dataclass(frozen=True)
class Oversight:
    """All of it; `audit` is None while there is no audit log."""

    policy: PolicyStatus
    audit: AuditStatus | None
    hardening: tuple[HardeningStep, ...]
    store: StoreStatus = StoreStatus("", "")


def oversight(message: pb.AdminStatusResponse) -> Oversight:
    """Take all of it off the wire."""
    audit = message.audit
    return Oversight(
        PolicyStatus(message.policy.generation, message.policy.broken),
        AuditStatus(audit.sequence, audit.mac, audit.writable)
        if message.HasField("audit")
        else None,
        tuple(HardeningStep(each.step, each.state, each.reason) for each in message.hardening),
        StoreStatus(message.store.bucket, message.store.failure),
    )


@dataclass(frozen=True)
class Connected:
    """A client process.

    Attributes:
        session: as in the daemon's log.
        listener: that it came by.
        uid, pid: by the kernel's word; pid 0: unknown.
        connections: how many, to both sockets.
        received: it was handed plaintext.
    """

    session: str
    listener: str
    uid: int
    pid: int
    connections: int
    received: bool


@dataclass(frozen=True)
class Figures:
    """What a live view shows.

    Attributes:
        samples: by name and labels, as /metrics has them.
        sessions: client processes on the daemon's machine, at most 1,000.
    """

    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]
    sessions: tuple[Connected, ...]

    def sum(self, name: str, **labels: str) -> float:
        """Return the sum of all samples of this name that have these labels; 0 if there is none."""
        wanted = labels.items()
        return sum(
            value for (each, has), value in self.samples.items() if each == name and wanted <= has
        )

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of a name's samples by what they have in a label."""
        found: dict[str, float] = {}
        for (each, has), value in self.samples.items():
            if each == name:
                key = dict(has).get(label, "")
                found[key] = found.get(key, 0.0) + value
        return found


def figures(message: pb.FiguresResponse) -> Figures:
    """Take them off the wire."""
    return Figures(
        {(one.name, frozenset(one.labels.items())): one.value for one in message.figures},
        tuple(
            Connected(one.session, one.listener, one.uid, one.pid, one.connections, one.received)
            for one in message.sessions
        ),
    )
