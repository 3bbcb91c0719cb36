"""Whether a daemon can be reached, how it is, and what it gave up."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar._version import __version__
from sealcar.doctor.findings import Finding, State
from sealcar.errors import ConfigurationError, SealcarError

if TYPE_CHECKING:
    from sealcar.client import DaemonState
    from sealcar.oversight import HardeningStep, Oversight
    from sealcar.transfer.location import Location

_START: Final = "start it (`sealcar serve --config FILE`), or name its directory with --socket"
_CORRECT: Final = "correct --socket, $SEALCAR_SOCKET or $SEALCAR_PEER_UID"
_WAY: Final = "chmod go-w what leads there, or put the sockets elsewhere"
_DELIVERY: Final = (
    "let this process receive descriptors and map them (sandbox, RLIMIT_NOFILE, RLIMIT_AS), and"
    " unset $SEALCAR_DELIVERY"
)
_UNLOCK: Final = "`sealcar unlock`, once it is clear why it was locked"
_SESSIONS: Final = {
    "pidfd": (State.OK, "It knows this process for certain (pidfd)"),
    "pidfd-shared": (State.WEAKER, "It knows this process, with a weaker identity (pidfd-shared)"),
    "connection": (State.WEAKER, "It knows this connection only, not its process (connection)"),
}


def listener(socket: Path | None, timeout: float) -> list[Finding]:
    """Look at the directory of the sockets, and ask the daemon there how it is.

    Args:
        socket: the directory; None: as `sealcar.connect` finds it.
        timeout: seconds to wait for the daemon.
    """
    from sealcar.transfer.location import Location  # noqa: PLC0415  (loads the transport)

    named = socket is not None
    try:
        location = Location.find(socket, None)
    except ConfigurationError as error:
        if named or os.environ.get("SEALCAR_PEER_UID"):
            return [Finding("sockets", State.PROBLEM, str(error), _CORRECT)]
        return [Finding("sockets", State.UNKNOWN, "No daemon is known here.", _START)]
    found = _directory(location, named=named)
    if found.state in {State.OK, State.WEAKER}:
        return [found, *_daemon(location, timeout)]
    return [found]


def _directory(location: Location, *, named: bool) -> Finding:
    path = location.directory
    try:
        seen = path.stat()
    except OSError as error:
        there = named or not isinstance(error, FileNotFoundError)
        state = State.PROBLEM if there else State.UNKNOWN
        told = f"{path} can't be looked at: {error.strerror}."
        return Finding("sockets", state, told, _START)
    told = f"{path} is of uid {seen.st_uid}, mode {stat.S_IMODE(seen.st_mode):04o}"
    if seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        told = f"{told}: others than its owner can put a daemon of theirs there."
        state = State.PROBLEM if location.peer_uid is None else State.WEAKER
        return Finding("sockets", state, told, f"chmod go-w {path}")
    try:
        location.expected_uid()
    except SealcarError as error:  # the way to it counts too
        return Finding("sockets", State.PROBLEM, f"{error}.", _WAY)
    return Finding("sockets", State.OK, f"{told}{_mode(Path(location.data))}.")


def _mode(socket: Path) -> str:
    try:
        return f", its data socket mode {stat.S_IMODE(socket.stat().st_mode):04o}"
    except OSError:
        return ""


def _daemon(location: Location, timeout: float) -> list[Finding]:
    import sealcar  # noqa: PLC0415  (loads the transport)

    try:
        with sealcar.connect(
            location.directory, peer_uid=location.peer_uid, timeout=timeout
        ) as client:
            state = client.state()
            client.try_delivery()
            delivery = delivered(client.delivery, client.delivery_reason)
    except SealcarError as error:
        remedy = f"{_START}; `listen.NAME.group` and `mode` say who may connect"
        return [Finding("daemon", State.PROBLEM, str(error), remedy)]
    return [*judged(state), delivery]


def judged(state: DaemonState) -> list[Finding]:
    """Judge what a daemon says about itself."""
    return [_serving(state), _release(state), _isolation(state), _session(state)]


def delivered(way: str, reason: str) -> Finding:
    """Judge how large payloads come and go.

    Args:
        way: "ring" or "stream".
        reason: why it isn't a ring where that wasn't asked for.
    """
    if way == "ring":
        told = "Large payloads come and go through memory that the daemon hands over (ring)."
        return Finding("delivery", State.OK, told)
    told = f"Large payloads come and go over a socket, which takes longer (stream){_why(reason)}."
    return Finding("delivery", State.WEAKER, told, _DELIVERY)


def _why(reason: str) -> str:
    return f": {reason}" if reason else ", as $SEALCAR_DELIVERY says"


def _serving(state: DaemonState) -> Finding:
    if state.locked:
        told = "It is locked: nothing is read or written."
        return Finding("daemon", State.WEAKER, told, _UNLOCK)
    if not state.serving:
        told = "It is there but doesn't serve: it starts or drains."
        return Finding("daemon", State.PROBLEM, told, "wait, then look into its log")
    return Finding("daemon", State.OK, "It serves.")


def _release(state: DaemonState) -> Finding:
    if state.release != __version__:
        told = f"It is of release {state.release}, this program of {__version__}."
        return Finding("release", State.WEAKER, told, "install the same release on both sides")
    return Finding("release", State.OK, f"It is of release {state.release}, as this program.")


def _isolation(state: DaemonState) -> Finding:
    if state.isolation == "uid":
        told = "Clients are other users than the daemon (uid)."
        return Finding("isolation", State.OK, told)
    return Finding(
        "isolation",
        State.WEAKER,
        f"A client may have the daemon's uid, and can then do what it can ({state.isolation}).",
        'run the daemon as a user of its own, with daemon.isolation = "uid"',
    )


def _session(state: DaemonState) -> Finding:
    how, told = _SESSIONS.get(state.session, (State.UNKNOWN, f"It says {state.session}"))
    remedy = "" if how is State.OK else "run Linux 6.9 or later, and one pid namespace for both"
    return Finding("session", how, f"{told}.", remedy)


def inside(admin: Path, timeout: float) -> list[Finding]:
    """Ask a daemon's admin socket what it gave up, and how policy and audit log are."""
    from sealcar.admin import Admin  # noqa: PLC0415  (loads gRPC)

    try:
        with Admin.at(admin, timeout=timeout) as socket:
            return overseen(socket.oversight())
    except SealcarError as error:
        remedy = "name the directory that admin.dir has, and call as the daemon's user"
        return [Finding("admin", State.PROBLEM, str(error), remedy)]


def overseen(seen: Oversight) -> list[Finding]:
    """Judge what operators are told."""
    steps = [_step(each) for each in seen.hardening]
    if not steps:
        told = "The daemon doesn't say what it gave up."
        steps = [Finding("hardening", State.UNKNOWN, told, "look for `hardening` in its log")]
    return [*steps, _policy(seen), _audit(seen), *_store(seen)]


def _step(step: HardeningStep) -> Finding:
    check = f"hardening: {step.step}"
    if step.state == "on" and not step.reason:
        return Finding(check, State.OK, "It is on.")
    remedy = (
        'set it to "on" or "require" in [hardening]'
        if step.state == "off"
        else "another kernel or container runtime"
    )
    return Finding(check, State.WEAKER, f"It is {step.state}: {step.reason}.", remedy)


def _policy(seen: Oversight) -> Finding:
    told = f"Generation {seen.policy.generation} is in force"
    if seen.policy.broken:
        remedy = "`sealcar policy check FILE` says what is wrong"
        told = f"{told}, but its file can't be used now."
        return Finding("policy", State.PROBLEM, told, remedy)
    return Finding("policy", State.OK, f"{told}.")


def _audit(seen: Oversight) -> Finding:
    if seen.audit is None:
        told = "There is no audit log."
        return Finding("audit", State.WEAKER, told, 'set audit.mode to "required"')
    if not seen.audit.writable:
        told = "The audit log can't be written."
        return Finding("audit", State.PROBLEM, told, "make room where audit.dir is")
    return Finding("audit", State.OK, "The audit log is written.")


def _store(seen: Oversight) -> list[Finding]:
    if seen.store.failure:
        remedy = "look at network, store.endpoint, and what the credentials may do"
        return [Finding("bucket", State.PROBLEM, f"{seen.store.failure}.", remedy)]
    if seen.store.bucket:
        return [Finding("bucket", State.OK, f"{seen.store.bucket} can be reached.")]
    return []
