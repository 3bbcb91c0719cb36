"""What operators do with keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from sealcar_server.service.failing import during
from sealcar_server.service.hanging import hanging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.keys.provider import KekStatus
    from sealcar_server.keys.ring import KeyRing
    from sealcar_server.service.hanging import Hanging
    from sealcar_server.service.rewrapping import Progress, Rewrapped, Rewrapper, Wanted
    from sealcar_server.store.local import LocalStore

_log: Final = structlog.get_logger("sealcar.keys")


class Keys:
    """Reached through the admin socket only, whose file mode is its policy.

    Args:
        keyring: of the daemon.
        store: whose packages hang on it.
        rewrapper: moves them.
    """

    def __init__(self, keyring: KeyRing, store: LocalStore, rewrapper: Rewrapper) -> None:
        self._keyring, self._store, self._rewrapper = keyring, store, rewrapper

    def status(self) -> tuple[KekStatus, ...]:
        """Ask every key provider for its health."""
        return tuple(self._keyring.status())

    def rotate(self, alias: str = "") -> tuple[str, str]:
        """Give a key-encryption key a new version; return alias and version.

        Args:
            alias: empty: the one that the store's own key is under.

        Raises:
            WrongStateError: this kind of key gets its versions elsewhere.
            KeyRefusedError, KeyUnavailableError, ConfigurationError, ConflictError, StorageError:
                there is no new version; the old one goes on.
        """
        alias = alias or self._store.identity.kek_alias
        with during("rotate"):
            version = self._keyring.rotate(alias)
        _log.info("key rotated", alias=alias, version=version)
        return alias, version

    def rewrap(self, wanted: Wanted, progress: Progress) -> Rewrapped:
        """Move packages to the current version; see `Rewrapper.run`."""
        return self._rewrapper.run(wanted, progress)

    def report(self) -> Iterator[Hanging]:
        """Tell what hangs on which version; see `hanging`."""
        with during("report"):
            yield from hanging(self._store)
