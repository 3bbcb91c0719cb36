"""The composition root: builds the daemon from its settings, starts it, drains it.

What was started last is stopped first. Sockets come last: when a client can connect, all is there.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket as sockets
import time
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import SealcarError
from sealcar_server import bucket_access, remote_access, signals, trust
from sealcar_server.access.live_policy import LivePolicy
from sealcar_server.access.rates import Rates
from sealcar_server.access.sessions import Sessions
from sealcar_server.access.shares import Shares
from sealcar_server.auditing import Accounting
from sealcar_server.endpoints import data_door, listening
from sealcar_server.endpoints.data_packets import name_senders
from sealcar_server.endpoints.data_socket import DataSocket
from sealcar_server.endpoints.doors import Doors
from sealcar_server.endpoints.relay import NAME_BYTES
from sealcar_server.grpc_doors import GrpcDoors, Parts
from sealcar_server.hardening import process
from sealcar_server.service.assembly import Limits, Service
from sealcar_server.service.confined import ConfinedChecker
from sealcar_server.service.custody import Custody
from sealcar_server.service.revocations import Revocations
from sealcar_server.transfer.budget import Budget
from sealcar_server.transfer.crowds import Crowds
from sealcar_server.transfer.engine import Engine
from sealcar_server.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.hardening.confinement import Confinement
    from sealcar_server.settings import Settings

_DRAIN_STEP: Final = 0.05
_log: Final = structlog.get_logger("sealcar")


def run(settings: Settings, confinement: Confinement) -> None:
    """Serve until SIGTERM or SIGINT, then let what is under way finish; SIGHUP reloads files.

    Raises:
        SealcarError: it can't start.
    """
    received = signals.catch()
    with contextlib.ExitStack() as stack:
        daemon = _Daemon(settings, stack)
        daemon.start(confinement)
        _serve_until_told(daemon, received)
        daemon.drain(received)
    _log.info("stopped")


def _serve_until_told(daemon: _Daemon, received: SimpleQueue[int]) -> None:
    while True:
        try:
            if received.get(timeout=daemon.pause) != signal.SIGHUP:
                return
        except Empty:
            pass
        else:
            daemon.reload()
        # after a reload too: who asks for one again and again doesn't keep it from that
        daemon.keep_house()


class _Daemon:
    """All parts, each put on the stack that will stop it.

    Attributes:
        policy: in force.
        pause: the longest between two times that the main thread keeps house, seconds.
    """

    def __init__(self, settings: Settings, stack: contextlib.ExitStack) -> None:
        self._settings = settings
        self._stack = stack
        process.raise_limits()
        trust.refuse_what_others_can_write(settings)
        self._access = remote_access.of(settings)
        self._watched = Watched(settings, stack)
        self._meter, self.pause = self._watched.meter, self._watched.pause
        self._accounting = Accounting(settings, self._meter.audited, self._meter, self._meter.keys)
        stack.callback(self._accounting.close)
        self.policy = LivePolicy(
            settings.policy.file,
            lambda: trust.policy_of(settings, self._meter.denied),
            self._policy_loaded,
        )
        self._claim_folders()
        of_bucket = self._meter.store.bucket
        store = stack.enter_context(bucket_access.open_store(settings.store, of_bucket))
        keyring = Custody(
            lambda: self._accounting.open_ring(store.identity.kek_alias),
            Revocations(self._state),
            locked=settings.daemon.start == "locked",
        )
        stack.callback(keyring.close)
        self._accounting.seal_by(keyring)
        self._watched.follow(store, keyring, self._accounting.trail)
        self.service = Service.over(
            store,
            keyring,
            self.policy,
            state=self._state,
            limits=Limits(
                transaction_ttl=settings.transfer.transaction_ttl,
                require_pins=settings.rollback.require_pins,
            ),
            meter=self._meter,
            trail=self._accounting.trail,
            checker=ConfinedChecker(settings.limits.checked_model, settings.limits.check_time),
            vouching=trust.vouching_of(settings),
        )
        stack.callback(self.service.close)

    def start(self, confinement: Confinement) -> None:
        """Start everything, sockets last; then give up what nobody needs any more."""
        settings, stack, meter = self._settings, self._stack, self._meter
        trail = self._accounting.trail
        self._rates = Rates(settings.limits.requests, meter.denied, trail.refused_account)
        self._sessions = Sessions(
            own_uid=os.geteuid() if settings.daemon.isolation == "uid" else None,
            of_one=settings.limits.sessions,
            on_denied=meter.denied,
            on_count=meter.sessions,
            on_refused=trail.refused,
        )
        stack.callback(self._sessions.close)
        self._budget = Budget(settings.transfer.memory_limit)
        self._shares = Shares(settings.limits.share_beside_others)
        engine = Engine(settings.daemon.workers or None, Crowds(self._shares.accompanied))
        engine.start()
        stack.callback(engine.close)
        self._tracing = self._watched.tracing()
        parts = Parts(
            settings, self.service, self._sessions, self._rates, meter, trail, self._tracing
        )
        self._grpc = GrpcDoors(parts, stack)
        self._grpc.start_admin(self._admin, self.policy, confinement.steps)
        self._grpc.start_inner(
            self._inner, lambda: self._listeners(listening.GRPC, sockets.SOCK_STREAM)
        )
        self._start_data(engine)
        if self._access is not None:
            self._grpc.start_tls(self._access)
        self.service.serve_behind(
            Doors(
                self._data,
                self._sessions,
                self._grpc.streams,
                self._grpc.servers,
                unlocked=self.service.standing.begin,
            )
        )
        self.service.prefetcher.serve_behind(self._data)
        # last: whoever is answered there knows that all sockets are there
        self._watched.serve()
        self.policy.follow(self._data.policy_changed)
        self.policy.follow(self._revoke)
        confinement.complete()
        self.service.standing.want(settings.prefetch.packages, shared=settings.prefetch.shared)
        stack.callback(self.service.standing.close)
        self.service.standing.begin()
        # first of all at the end: those who wait for a bucket would have to be waited for
        stack.callback(self.service.store.let_go)
        self._watched.ready()
        # what is there by now stays: looking for garbage in it would hold up every thread
        gc.collect()
        gc.freeze()

    def keep_house(self) -> None:
        """Notice other files, and abort transactions that nobody uses any more."""
        self._watched.beat()
        self.policy.look()
        self._grpc.look()
        try:
            self.service.payloads.expire()
        except SealcarError as error:
            _log.warning("an idle transaction can't be aborted", error=str(error))
        self._accounting.trail.flush()

    def reload(self) -> None:
        """Read policy and certificates again."""

        def reload() -> None:
            self.policy.reload()
            self._grpc.reload()

        self._watched.reloading(reload)

    def _revoke(self) -> None:
        revoked = self.service.payloads.revoke()
        if revoked:
            _log.info("transactions aborted: their grants were taken away", count=revoked)

    def drain(self, received: SimpleQueue[int]) -> None:
        """Take no new transfers; give those under way the time that the settings allow."""
        timeout = self._settings.daemon.drain_timeout
        _log.info("draining", timeout_seconds=timeout)
        self._watched.drains()
        self._grpc.drain()
        deadline = time.monotonic() + timeout
        while self._busy() and time.monotonic() < deadline:
            self._watched.beat()
            # a second signal means: at once
            with contextlib.suppress(Empty):
                if received.get(timeout=_DRAIN_STEP) != signal.SIGHUP:
                    break

    def _policy_loaded(self, generation: int, broken: bool) -> None:  # noqa: FBT001  (a hook's)
        self._meter.policy(generation, broken)
        self._accounting.policy_loaded(generation, broken=broken)

    def _busy(self) -> bool:
        return not self._data.drain(0) or self._grpc.busy()

    def _claim_folders(self) -> None:
        """Be the only daemon in every directory, and know that sockets can be made there."""
        self._state = trust.own_folder(self._settings.daemon.state_dir)
        self._inner = trust.own_folder(self._state / "inner")
        self._admin = trust.own_folder(self._settings.admin.dir)
        audit = trust.own_folder(self._accounting.folder)
        listening.socket_path(self._inner, "x" * NAME_BYTES)
        listening.socket_path(self._admin, listening.ADMIN)
        for folder in (self._state, self._admin, audit):
            self._stack.enter_context(listening.sole_server(folder))
        for listener in self._settings.listen.values():
            for name in (listening.GRPC, listening.DATA, listening.FLOW):
                listening.socket_path(listener.dir, name)
            trust.shared_folder(listener.dir)
            self._stack.enter_context(listening.sole_server(listener.dir))

    def _start_data(self, engine: Engine) -> None:
        settings = self._settings
        services = data_door.Services(
            payloads=self.service.payloads,
            sessions=self._sessions,
            engine=engine,
            budget=self._budget,
            meter=self._meter,
            release=version("sealcar"),
            isolation=settings.daemon.isolation,
            locked=lambda: self.service.keys.locked,
            rates=self._rates,
            shares=self._shares,
            refused=self._accounting.trail.refused,
            tracing=self._tracing,
        )
        limits = data_door.Limits(
            wait=settings.transfer.wait,
            idle_timeout=settings.transfer.idle_timeout,
            connections_of_one=settings.limits.connections,
            transfers_of_one=settings.limits.transfers,
            warm_for=min(data_door.Limits.warm_for, settings.daemon.key_lifetime),
        )
        packets = self._listeners(listening.DATA, sockets.SOCK_SEQPACKET, name_senders)
        streams = self._listeners(listening.FLOW, sockets.SOCK_STREAM, name_senders)
        listeners = {sock: name for made in (packets, streams) for name, sock in made.items()}
        self._data = DataSocket(listeners, services, limits)
        self._stack.callback(self._data.close)
        self._watched.follow_data(self._data, self._budget, engine, self._grpc.pulses())
        self._data.start()

    def _listeners(
        self,
        name: str,
        kind: sockets.SocketKind,
        prepare: Callable[[sockets.socket], None] = lambda _listener: None,
    ) -> dict[str, sockets.socket]:
        made = {}
        for listener, settings in self._settings.listen.items():
            path = settings.dir / name
            made[listener] = listening.listen(
                path, kind, settings.mode, settings.group, prepare=prepare
            )
            self._stack.callback(path.unlink, missing_ok=True)
        return made
