"""The audit log of a daemon: where it is, and how its keys are sealed by the daemon's own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from sealcar.errors import StorageError
from sealcar_server import spans, trust
from sealcar_server.access.audit.chain import SealedKey
from sealcar_server.access.audit.log import AuditLog, Options
from sealcar_server.access.audit.trail import Trail
from sealcar_server.keys.metering import UNMETERED, Meter
from sealcar_server.keys.provider import WrappedKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar_server.access.audit.chain import Position
    from sealcar_server.access.audit.trail import Counters
    from sealcar_server.keys.ring import KeyRing
    from sealcar_server.sealing.secret import SecretBuffer
    from sealcar_server.settings import Settings

_log: Final = structlog.get_logger("sealcar.audit")


class Wrapping(Protocol):
    """What seals keys: a ring, or whoever has one now and then."""

    def wrap(self, alias: str, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key for a context."""


class Accounting:
    """A daemon's trail. Its log begins with the first key ring: that seals the log's first key.

    Args:
        settings: of the daemon.
        on_state: told the log's last line, and whether there can be a next one.
        counters: told of refusals.
        key_meter: told of the key cache, and of requests to providers.

    Attributes:
        folder: of the log's files.
        trail: what decisions, keys and operators are accounted to.
    """

    def __init__(
        self,
        settings: Settings,
        on_state: Callable[[Position, bool], None],
        counters: Counters | None = None,
        key_meter: Meter = UNMETERED,
    ) -> None:
        self._key_meter = key_meter
        self._settings, self._on_state = settings, on_state
        self.folder: Final = settings.audit.dir or settings.daemon.state_dir / "audit"
        self.trail: Final = Trail(counters=counters)
        self._later: Wrapping | None = None
        if settings.audit.mode == "off":
            _log.warning('audit.mode is "off": nobody will know who read what')

    def open_ring(self, alias: str) -> KeyRing:
        """Open the key providers; their use is accounted for from the log's first line on.

        Args:
            alias: of the key-encryption key that seals the log's keys.

        Raises:
            SealcarError: they can't be opened, or the log can't be begun.
        """
        ring = trust.keyring_of(self._settings, self._using, self._key_meter)
        try:
            if self.trail.log is None and self._settings.audit.mode != "off":
                self.trail.log = self._begin(alias, ring)
        except BaseException:
            ring.close()
            raise
        return ring

    def seal_by(self, later: Wrapping) -> None:
        """Say what seals the keys of files that are begun later: the first ring may be gone."""
        self._later = later

    def policy_loaded(self, generation: int, *, broken: bool) -> None:
        """Account for another policy, or a file that is none."""
        # that it can't be written is logged, and refuses requests, anyway
        with contextlib.suppress(StorageError):
            self.trail.note("policy", generation=generation, broken=broken)

    def close(self) -> None:
        """Write the last line."""
        self.trail.flush(all_of_it=True)
        log, self.trail.log = self.trail.log, None
        if log is not None:
            log.close()

    @contextlib.contextmanager
    def _using(self, operation: str, alias: str, version: str) -> Iterator[None]:
        with (
            spans.span(f"key.{operation}", alias=alias),
            self.trail.key_use(operation, alias, version),
            self._key_meter.asking(operation, alias),
        ):
            yield

    def _begin(self, alias: str, ring: KeyRing) -> AuditLog:
        audit = self._settings.audit

        def seal(key: SecretBuffer, context: bytes) -> SealedKey:
            begun = self.trail.log is not None
            wrapping: Wrapping = self._later if begun and self._later is not None else ring
            wrapped = wrapping.wrap(alias, key, context)
            return SealedKey(alias, wrapped.version, wrapped.blob)

        options = Options(
            required=audit.mode == "required",
            sync_interval=audit.sync_interval,
            file_size=audit.file_size,
        )
        log = AuditLog(self.folder, seal, options, self._on_state)
        self._on_state(log.last, log.writable)
        return log


def unsealing(keyring: KeyRing) -> Callable[[SealedKey, bytes], SecretBuffer]:
    """Return what gives the first key of a chain back."""

    def unseal(sealed: SealedKey, context: bytes) -> SecretBuffer:
        wrapped = WrappedKey(sealed.version, sealed.blob)
        return keyring.unwrap(sealed.alias, wrapped, context)

    return unseal
