"""What the daemon relies on, refused at start if anyone else could change it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError, StorageError
from sealcar_server import hardening
from sealcar_server.access.policy import Policy
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.ring import KeyRing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.settings import Settings

_SHARED: Final = 0o755  # who may connect, the sockets' own mode says


def own_folder(path: Path) -> Path:
    """Return a directory for the daemon alone; it is made if it is missing.

    Raises:
        ConfigurationError: others can change it.
        StorageError: it can't be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        hardening.require_private(path, "directory")
        path.chmod(0o700)
    except OSError as error:
        raise StorageError(f"{path}: can't be used: {error.strerror}") from error
    return path


def shared_folder(path: Path) -> None:
    """Make sure of a directory that clients reach sockets in; it is made if it is missing.

    What lies above it is the clients' worry: they check the daemon's uid before they say anything.

    Raises:
        ConfigurationError: others can change it.
        StorageError: it can't be made.
    """
    try:
        if not path.exists():
            path.mkdir(parents=True)
            path.chmod(_SHARED)
    except OSError as error:
        raise StorageError(f"{path}: can't be used: {error.strerror}") from error
    hardening.require_private(path, "directory", above=False)


def refuse_what_others_can_write(settings: Settings) -> None:
    """Return if nobody else can change keys, policy or store.

    Raises:
        ConfigurationError: somebody can.
    """
    for alias, key in settings.keys.items():
        hardening.require_private(key.uri, f"[keys.{alias}] uri")
    hardening.require_private(settings.policy.file, "[policy] file")
    hardening.require_private(settings.store.path, "[store] path")


def policy_of(settings: Settings, on_denied: Callable[[str], None]) -> Policy:
    """Read the policy.

    Raises:
        ConfigurationError: it is wrong, or has a grant that could never be used.
    """
    policy = Policy.load(settings.policy.file, on_denied=on_denied)
    uid = os.geteuid()
    if settings.daemon.isolation == "uid" and policy.names_uid(uid):
        raise ConfigurationError(
            f"{settings.policy.file}: a grant names uid {uid}, the daemon's own, who is never let "
            'in with daemon.isolation = "uid"; run the daemon as another user, or set "none"'
        )
    return policy


def keyring_of(settings: Settings) -> KeyRing:
    """Log in at every key provider.

    Raises:
        ConfigurationError, KeyUnavailableError: one can't be used.
    """
    providers = {alias: FileProvider(key.uri) for alias, key in settings.keys.items()}
    return KeyRing(providers, lifetime=settings.daemon.key_lifetime)
