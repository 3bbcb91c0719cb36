"""A fleet on paper: how long each resource alone would take, from what was measured here.

Every resource is taken as if it were the only bound; the longest time is the fleet's, and its
resource the one that saturates first. Nothing here is measured: what is, comes in as `Measured`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from scale import aggregate, clients, fleet, listing

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES: Final = 1000
# parts of a report without which nothing follows
NEEDED: Final = ("daemons", "fleet")
GBIT: Final = 1e9 / 8


@dataclass(frozen=True)
class Measured:
    """What a report says of one node.

    Attributes:
        package: bytes, in plain.
        passed: bytes that leave the bucket for one byte in plain.
        requests: to the bucket, until a node that kept nothing has the package.
        key_calls: to the key's provider meanwhile.
        core_seconds: of the daemon, for 1 GB from the bucket.
        again: the same, from what it kept.
        reader: core seconds of the reader for 1 GB.
        list_requests: to the bucket, to list the most packages that were listed.
        packages: how many those were; 0: none were listed.
        connections: that a node fetches by.
    """

    package: float
    passed: float
    requests: float
    key_calls: float
    core_seconds: float
    again: float
    reader: float
    list_requests: float
    packages: int
    connections: int


@dataclass(frozen=True)
class Assumed:
    """What isn't measured here: of services and machines as they are sold.

    Attributes:
        bucket: bytes a second that the bucket sends to all together.
        connection: bytes a second of one connection to it.
        nic: bytes a second that a node can receive.
        asked: requests a second that one prefix of the bucket answers.
        keys: calls a second that the key service answers.
        cores: of a node that its daemon may use.
        watching: requests by which a daemon looks once after a version that it has in use.
        refresh: seconds between such looks, as `store.refresh` is by default.
    """

    bucket: float = 10 * GBIT
    connection: float = 85e6
    nic: float = 25 * GBIT
    asked: float = 5500
    keys: float = 1000
    cores: float = 2
    watching: float = 2
    refresh: float = 10


def measured(report: Mapping[str, Any]) -> Measured:
    """Take what a report has of one node: the C reader, one daemon, and the fleet's real nodes."""
    parts = report["parts"]
    first = _row(parts["daemons"], daemons=1, language=clients.C, way=aggregate.FIRST)
    again = _row(parts["daemons"], daemons=1, language=clients.C, way=aggregate.AGAIN)
    node = _row(parts["fleet"], way=fleet.EMPTY)
    lists = parts.get("listing", {"rows": []})
    most = max((row["packages"] for row in lists["rows"]), default=0)
    listed = _row(lists, packages=most, way=listing.FIRST)["requests"] if most else {}
    asked = node["requests_of_a_real_node"], node["requests_of_a_daemon_that_starts"]
    return Measured(
        package=node["package"],
        passed=node["passed"] / (node["package"] * node["nodes"]),
        requests=sum(sum(each.values()) for each in asked),
        key_calls=node["key_calls_of_a_real_node"],
        core_seconds=first["core_seconds_per_gb"]["daemons"],
        again=again["core_seconds_per_gb"]["daemons"],
        reader=first["core_seconds_per_gb"]["readers"],
        list_requests=sum(value for name, value in listed.items() if name != "refused"),
        packages=most,
        connections=report["plan"]["stand_ins"]["connections"],
    )


def _row(part: Mapping[str, Any], **wanted: object) -> Mapping[str, Any]:
    """Return the row that has these values; KeyError: none."""
    for row in part["rows"]:
        if all(row[name] == value for name, value in wanted.items()):
            found: Mapping[str, Any] = row
            return found
    raise KeyError(f"no row has {wanted}")


def seconds(nodes: float, node: Measured, assumed: Assumed) -> dict[str, float]:
    """Return, by resource, how long it alone takes for so many nodes that begin together."""
    sent = node.package * node.passed
    return {
        "bucket's bandwidth": nodes * sent / assumed.bucket,
        "a node's connections": sent / (node.connections * assumed.connection),
        "a node's network card": sent / assumed.nic,
        "requests to the prefix": nodes * node.requests / assumed.asked,
        "lists of the prefix": nodes * node.list_requests / assumed.asked,
        "calls of the key service": nodes * node.key_calls / assumed.keys,
        "a daemon's cores": node.package / 1e9 * node.core_seconds / assumed.cores,
    }


def saturates(found: Mapping[str, float]) -> tuple[str, float]:
    """Return the resource that takes longest, and its time."""
    return max(found.items(), key=lambda each: each[1])


def watched(nodes: float, assumed: Assumed) -> float:
    """Return the requests a second of nodes that only look after one version in use."""
    return nodes * assumed.watching / assumed.refresh


def crossing(node: Measured, assumed: Assumed) -> float:
    """Return from how many nodes on the bucket's bandwidth is the bound, and not a node itself."""
    found = seconds(1, node, assumed)
    alone = max(found[name] for name in found if name.startswith("a "))
    return alone / found["bucket's bandwidth"]
