"""What the daemon relies on, refused at start if anyone else could change it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError, SealcarError, StorageError
from sealcar_server.access.policy import Policy
from sealcar_server.hardening.ownership import require_private
from sealcar_server.keys.metering import UNMETERED, Meter
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.ring import KeyRing
from sealcar_server.keys.signing import Publishers, Signer, Vouching
from sealcar_server.keys.source import KeySource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.keys.provider import KeyProvider
    from sealcar_server.settings import Key, Settings

_SHARED: Final = 0o755  # who may connect, the sockets' own mode says


def own_folder(path: Path) -> Path:
    """Return a directory for the daemon alone; it is made if it is missing.

    Raises:
        ConfigurationError: others can change it.
        StorageError: it can't be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_private(path, "directory")
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
        missing = [each for each in (path, *path.parents) if not each.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            folder.chmod(_SHARED)
    except OSError as error:
        raise StorageError(f"{path}: can't be used: {error.strerror}") from error
    require_private(path, "directory", above=False)


def refuse_what_others_can_write(settings: Settings) -> None:
    """Return if nobody else can change keys or store.

    Raises:
        ConfigurationError: somebody can.
    """
    for alias, key in settings.keys.items():
        for file in key.uri.files:
            require_private(file, f"[keys.{alias}] uri")
        if key.secret is not None:
            require_private(key.secret, f"[keys.{alias}] secret")
    require_private(settings.store.path, "[store] path")


def vouching_of(settings: Settings) -> Vouching:
    """Read the keys by which packages in transit are vouched for.

    Raises:
        ConfigurationError: others can change or read them, or they are none.
        KeyUnavailableError: they can't be read.
    """
    transit = settings.transit
    for name, path in vars(transit).items():
        if path is not None:
            require_private(path, f"[transit] {name}")
    signer = Signer.load(transit.signing_key) if transit.signing_key else None
    known = Publishers.load(transit.publishers) if transit.publishers else Publishers()
    return Vouching(signer, known)


def policy_of(settings: Settings, on_denied: Callable[[str], None]) -> Policy:
    """Read the policy.

    Raises:
        ConfigurationError: others can change it, it is wrong, or it has a grant that could never be
            used.
    """
    require_private(settings.policy.file, "[policy] file")
    policy = Policy.load(settings.policy.file, on_denied=on_denied)
    uid = os.geteuid()
    if settings.daemon.isolation == "uid" and policy.names_uid(uid):
        raise ConfigurationError(
            f"{settings.policy.file}: a grant names uid {uid}, the daemon's own, who is never let "
            'in with daemon.isolation = "uid"; run the daemon as another user, or set "none"'
        )
    domains = policy.trust_domains() - {settings.tls.trust_domain}
    if settings.tls.address is not None and domains:
        raise ConfigurationError(
            f"{settings.policy.file}: a grant names the trust domain {min(domains)}, of which "
            "nobody is let in: tls.trust_domain is another one"
        )
    return policy


def keyring_of(
    settings: Settings,
    using: Callable[[str, str, str], contextlib.AbstractContextManager[object]] = (
        lambda *_: contextlib.nullcontext()
    ),
    meter: Meter = UNMETERED,
) -> KeyRing:
    """Make every key provider. One that can't be reached yet is no reason not to start.

    Args:
        settings: of the daemon.
        using: entered around each request to a provider.
        meter: told of the cache, and of providers that answer or don't.

    Raises:
        ConfigurationError: one's setting is wrong.
        KeyRefusedError, KeyUnavailableError: a key file doesn't open.
        RuntimeSupportError: what one needs isn't installed.
    """
    with contextlib.ExitStack() as opened:
        providers = {}
        for alias, key in settings.keys.items():
            providers[alias] = _provider(alias, key)
            opened.callback(providers[alias].close)
        opened.pop_all()
    intervals = {alias: key.check_interval for alias, key in settings.keys.items()}
    return KeyRing(
        providers,
        lifetime=settings.daemon.key_lifetime,
        using=using,
        check_interval=intervals,
        meter=meter,
    )


def _provider(alias: str, key: Key) -> KeyProvider:
    try:
        return open_provider(KeySource(key.uri, key.secret, key.timeout))
    except SealcarError as error:
        raise type(error)(
            f"[keys.{alias}]: {error.message}", retry_after=error.retry_after
        ) from error
