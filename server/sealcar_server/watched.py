"""How others see the daemon: metrics, probes, the service manager."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import RuntimeSupportError
from sealcar_server import metrics_http, spans
from sealcar_server.health import Health, Pulse
from sealcar_server.metrics import Metrics
from sealcar_server.metrics_store import Counting
from sealcar_server.notify import Notifier

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterable

    from sealcar_server.access.audit.trail import Trail
    from sealcar_server.endpoints.data_socket import DataSocket
    from sealcar_server.service.custody import Custody
    from sealcar_server.settings import Settings
    from sealcar_server.store.interface import Store
    from sealcar_server.transfer.budget import Budget
    from sealcar_server.transfer.engine import Engine

_HOUSEKEEPING: Final = 1.0  # seconds
_SLOW_DISK: Final = 120.0  # seconds that a worker may need for a piece
_log: Final = structlog.get_logger("sealcar")


class Watched:
    """Figures and signs of life.

    Args:
        settings: of the daemon.
        stack: of the daemon, which stops what is begun here.

    Attributes:
        meter: takes the figures.
        pause: the longest that the main thread may let the service manager wait, seconds.
    """

    def __init__(self, settings: Settings, stack: contextlib.ExitStack) -> None:
        self._settings, self._stack = settings, stack
        self.meter: Final = Metrics()
        self._notifier = stack.enter_context(Notifier())
        self.pause: Final = min(_HOUSEKEEPING, self._notifier.interval or _HOUSEKEEPING)
        self._health = Health(lambda: True, lambda: False)

    def tracing(self) -> spans.Tracing:
        """Return what keeps traces, if the settings say where they go.

        Raises:
            RuntimeSupportError: OpenTelemetry isn't installed.
        """
        endpoint = self._settings.traces.endpoint
        if endpoint is None:
            return spans.UNTRACED
        try:
            from sealcar_server.traces import Traces  # noqa: PLC0415  (an extra)
        except ModuleNotFoundError as error:
            raise RuntimeSupportError(
                f"[traces] needs {error.name}, which isn't installed; "
                "remedy: pip install 'sealcar[otel]', or traces.endpoint = \"off\""
            ) from error
        return self._stack.enter_context(
            Traces(endpoint, version("sealcar"), self.meter.calls.spans)
        )

    def follow(self, store: Store, keyring: Custody, trail: Trail) -> None:
        """Ask these for their figures whenever somebody looks."""
        settings = self._settings
        self._store, self._keyring = store, keyring
        self.meter.started(
            version("sealcar"),
            settings.daemon.isolation,
            settings.transfer.memory_limit,
            settings.keys,
        )
        self.meter.keys.follow(lambda: keyring.cached)
        self.meter.store.follow(settings.store.path)
        self.meter.follow_audit(trail.lag)
        self.meter.follow_lock(lambda: keyring.locked)

    def follow_data(
        self, data: DataSocket, budget: Budget, engine: Engine, pulses: Iterable[Pulse]
    ) -> None:
        """Ask these too; and these parts, whether they go round."""
        self._data, self._budget = data, budget
        self.meter.memory.follow(data, budget, engine)
        own = (Pulse("data socket", data.ask), Pulse("workers", engine.ask, _SLOW_DISK))
        self._health = Health(lambda: data.alive, lambda: self._keyring.locked, (*own, *pulses))

    def serve(self) -> None:
        """Serve metrics and probes, if the settings say where.

        Raises:
            ConfigurationError: the address can't be listened on.
        """
        address = self._settings.metrics.address
        if address is None:
            return
        port = self._stack.enter_context(
            metrics_http.serve(self.meter.registry, self._health, address)
        )
        self._stack.enter_context(Counting(self.meter.store, self._store))
        _log.info("metrics served", host=address.host, port=port)

    def ready(self) -> None:
        """Say that all sockets are there."""
        self._announce()
        self._notifier.status(self._status())
        self._notifier.ready()

    def beat(self) -> None:
        """Show that the main thread goes round, and how things are."""
        self._health.beat()
        if self._health.live:
            self._notifier.beat()
        self._notifier.status(self._status())

    def reloading(self, reload: Callable[[], None]) -> None:
        """Read files again; the service manager waits until that is done."""
        self._notifier.reloading()
        reload()
        self._notifier.ready()

    def drains(self) -> None:
        """Say that it ends, and takes no new work."""
        self.meter.draining()
        self._health.draining = True
        self._notifier.stopping()

    def _status(self) -> str:
        if self._health.draining:
            return f"draining: {self._data.transfers()} transfers under way"
        if self._keyring.locked:
            return "LOCKED: nothing before `sealcar unlock`"
        used, limit = self._budget.used >> 20, self._budget.limit >> 20
        return (
            f"serving {self._data.connections()} connections, {self._data.transfers()} transfers, "
            f"{used} of {limit} MiB in use"
        )

    def _announce(self) -> None:
        settings = self._settings
        if settings.daemon.isolation == "none":
            _log.warning(
                'isolation is "none": clients may run as the daemon\'s own user, and can then read '
                "what it reads; run it as a user of its own for production",
                uid=os.geteuid(),
            )
        if settings.store.read_only:
            _log.info("the store is only read: store.read_only")
        if self._keyring.locked:
            _log.warning("locked: no key before `sealcar unlock`")
        _log.info(
            "serving",
            listeners={name: str(one.dir) for name, one in settings.listen.items()},
            release=version("sealcar"),
            isolation=settings.daemon.isolation,
        )
