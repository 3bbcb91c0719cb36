"""What of the machine the settings have the daemon reach: all else can be closed to it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import sealcar
import sealcar_server
from sealcar_server import trust
from sealcar_server.hardening.landlock import CHANGE, READ, RUN, WRITE, Right
from sealcar_server.keys.source import FILES, RECIPIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.keys.source import KeyUri
    from sealcar_server.settings import Key, Settings
    from sealcar_server.settings_store import Store

_HTTPS: Final = 443
_HTTP: Final = 80
_DOMAIN: Final = 53
_RESOLVER: Final = Path("/etc/resolv.conf")  # replaced whenever the network changes
# the machine's own: shared libraries, names of hosts and users, time zones, authorities
_SYSTEM: Final = (
    *("/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
    *("/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/resolv.conf", "/etc/services"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates"),
    *("/dev/urandom", "/dev/random", "/dev/zero", "/sys/devices/system/cpu"),
    # who a caller is, and this process itself
    "/proc",
)
# of AWS's own client: where it is told who it is
_AWS_FILES: Final = (
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
)


@dataclass
class Reach:
    """What is needed.

    Attributes:
        places: directories and files, each with what is done there.
        bind: TCP ports that are listened on; 0: any that is free.
        connect: TCP ports of others.
        anywhere: aliases of keys whose providers may connect to what nobody but they know.
    """

    places: list[tuple[Path, Right]] = field(default_factory=list)
    bind: set[int] = field(default_factory=set)
    connect: set[int] = field(default_factory=set)
    anywhere: list[str] = field(default_factory=list)


def make_folders(settings: Settings) -> None:
    """Make the directories that the daemon makes for itself: rules are about what is there.

    Raises:
        ConfigurationError: others can change one.
        StorageError: one can't be made.
    """
    state = settings.daemon.state_dir
    for folder in (state, settings.admin.dir, settings.audit.dir or state / "audit"):
        trust.own_folder(folder)
    if settings.store.bucket is not None:
        trust.own_folder(settings.store.path)
    for listener in settings.listen.values():
        trust.shared_folder(listener.dir)


def of(settings: Settings) -> Reach:
    """Return what these settings need."""
    reach = Reach()
    reach.places += [(path, READ) for path in _interpreter()]
    reach.places += [(path, RUN) for path in _programs()]
    reach.places += [(Path("/dev/null"), WRITE)]
    changed = [settings.daemon.state_dir, settings.admin.dir]
    changed += [listener.dir for listener in settings.listen.values()]
    if settings.audit.dir:
        changed.append(settings.audit.dir)
    reach.places += [(path, CHANGE) for path in (*changed, *settings.hardening.writable)]
    reach.places += [(path, READ) for path in settings.hardening.readable]
    _add_store(reach, settings.store)
    kept = (settings.policy.file, settings.transit.signing_key, settings.transit.publishers)
    tls = settings.tls
    for file in (*kept, tls.certificate, tls.key, tls.client_ca):
        reach.places += _around(file, READ)
    for address in (settings.metrics.address, tls.address):
        if address:
            reach.bind.add(address.port)
    if settings.traces.endpoint:
        reach.connect |= {_port(settings.traces.endpoint), _DOMAIN}
        reach.places += _around(_RESOLVER, READ)
    for alias, key in settings.keys.items():
        _add_key(reach, alias, key)
    return reach


def _add_store(reach: Reach, store: Store) -> None:
    if store.bucket is None:
        reach.places.append((store.path, READ if store.read_only else CHANGE))
        return
    # copies are made there in any case
    reach.places.append((store.path, CHANGE))
    for file in (store.ca, store.credentials, _RESOLVER):
        reach.places += _around(file, READ)
    reach.connect |= {_DOMAIN, _port(store.endpoint or "https://"), *_proxy_ports()}
    if store.credentials is None:
        _add_aws(reach)


def _add_aws(reach: Reach) -> None:
    """Let AWS's own client find out who it is: from files, or from services of the machine."""
    reach.connect |= {_HTTPS, _HTTP}
    # no home is known of a user without a name, as containers have
    reach.places += [(Path(os.path.expanduser("~/.aws")), READ)]  # noqa: PTH111
    for name in _AWS_FILES:
        if os.environ.get(name):
            reach.places += _around(Path(os.environ[name]), READ)


def _add_key(reach: Reach, alias: str, key: Key) -> None:
    # a key file gets new versions by being replaced
    right = CHANGE if key.uri.scheme == "file" else READ
    for file in key.uri.files:
        reach.places += _around(file, right)
    reach.places += _around(key.secret, READ)
    scheme = key.uri.scheme
    if scheme == "vault":
        reach.connect |= {_port(key.uri.address), _DOMAIN}
    elif scheme == "aws-kms":
        reach.connect |= {_DOMAIN, *_aws_ports(key.uri)}
        _add_aws(reach)
    elif scheme not in FILES and (scheme != RECIPIENT or key.uri.parameters):
        # a token's library may speak to whatever it likes
        reach.anywhere.append(alias)
    else:
        return
    reach.places += _around(_RESOLVER, READ)


def _aws_ports(uri: KeyUri) -> Iterator[int]:
    if uri.has("endpoint"):
        yield _port(uri.parameters["endpoint"])
    yield from _proxy_ports()


def _proxy_ports() -> Iterator[int]:
    for name in ("HTTPS_PROXY", "https_proxy"):
        if os.environ.get(name):
            yield _port(os.environ[name])


def _port(url: str) -> int:
    # what is no URL is told by the provider
    with suppress(ValueError):
        parts = urlsplit(url if "//" in url else f"//{url}")
        return parts.port or (_HTTP if parts.scheme == "http" else _HTTPS)
    return _HTTPS


def _around(file: Path | None, right: Right) -> list[tuple[Path, Right]]:
    """Return the directories of a file: it may be replaced by another one, or be a link."""
    if file is None:
        return []
    # links in a circle lead nowhere: whoever opens the file says so
    folders = [file.parent, Path(os.path.realpath(file)).parent]
    if file.parent.is_symlink():
        # as Kubernetes mounts files: a link to a directory, of which there will be another
        folders.append(file.parent.parent)
    # all of the machine is nobody's directory
    return [
        (file if folder == folder.parent else folder, right) for folder in dict.fromkeys(folders)
    ]


def _interpreter() -> Iterator[Path]:
    yield from map(Path, _SYSTEM)
    yield from map(Path, (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix))
    yield from (Path(module.__path__[0]).parent for module in (sealcar, sealcar_server))
    # `python -m` puts the current directory there, which is no library
    here = Path.cwd()
    yield from (path for path in map(Path, filter(None, sys.path)) if path != here)
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    yield from map(Path, filter(None, libraries))


def _programs() -> Iterator[Path]:
    """Return what runs the process that looks at models: the interpreter, and what loads that."""
    yield Path(sys.executable).resolve()
    with suppress(OSError):
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        names = {line.split(maxsplit=5)[-1] for line in lines}
        yield from (Path(name) for name in names if Path(name).name.startswith("ld-"))
