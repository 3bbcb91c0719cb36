"""The daemon that is measured: one of its own that is gone afterwards, or the one that runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sealcar
from sealcar import publish
from sealcar.admin import Admin
from sealcar.benching import caches
from sealcar.benching.jobs import PREFIX
from sealcar.benching.subjects import NAME
from sealcar.demo.children import Child
from sealcar.demo.stage import connected
from sealcar.errors import (
    ConfigurationError,
    ExhaustedError,
    RequestError,
    RuntimeSupportError,
    UnavailableError,
    WrongStateError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealcar.benching.subjects import Subject
    from sealcar.catalogue.values import Watcher
    from sealcar.client import Client
    from sealcar.transfer.reading import Scope

# what the daemon imports that the client doesn't
_NEEDS: Final = ("cryptography", "prometheus_client", "structlog")
_LEAST_MEMORY: Final = 256 << 20
_SPARE: Final = 256 << 20


@dataclass(frozen=True)
class Daemon:
    """A daemon with the model in its store.

    Attributes:
        socket: directory of its listener.
        client: connected to it.
        scope: the model's.
        pid: of its process; None where it isn't ours.
        admin: directory of its admin socket; None the same.
        store: its directory; None the same.
    """

    socket: str
    client: Client
    scope: Scope
    pid: int | None = None
    admin: Path | None = None
    store: Path | None = None

    def nothing_shared(self) -> None:
        """Have nothing of the model decrypted in memory, but its key at hand."""
        if self.admin is not None:
            with Admin(self.admin, peer_uid=os.getuid()) as admin:
                admin.lock()
                admin.unlock()
            self.key_at_hand()

    def all_shared(self) -> None:
        """Have the weights decrypted in the memory that workers share."""
        self.client.catalogue.prefetch(self.scope.name, shared=True)

    def key_at_hand(self) -> None:
        """Have the daemon unwrap the package's key, which it then keeps."""
        model = next(one for one in self.scope.payloads if one.kind == "model")
        with self.scope.reader(model.name):
            pass

    def files(self) -> list[Path]:
        """Return the sealed files, where this user may see them."""
        return caches.below(self.store) if self.store is not None else []


def server_installed() -> bool:
    """Tell whether a daemon can be started from this installation."""
    return all(find_spec(each) is not None for each in _NEEDS)


@contextmanager
def throwaway(subject: Subject, folder: Path | None, progress: Watcher) -> Iterator[Daemon]:
    """Make a daemon with a fresh key and a store, seal the model into it; leave nothing of it.

    Args:
        subject: the model.
        folder: where the store lies meanwhile; default: where temporary files do.
        progress: is told how far the import is.

    Raises:
        ExhaustedError: there is no room for a sealed copy.
        SealcarError: what else goes wrong.
    """
    with ExitStack() as stack:
        try:
            place = tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder)
        except OSError as error:
            raise ConfigurationError(f"no directory can be made there: {error}") from error
        home = Path(stack.enter_context(place)) / "d"
        free = shutil.disk_usage(home.parent).free
        if free < subject.size + _SPARE:
            raise ExhaustedError(
                f"a sealed copy of {subject.size} bytes has no room in {home.parent}; give another "
                "place with --directory"
            )
        with Child("leash", "init", str(home), answering=False) as init:
            init.finish()
        # segments get three quarters of it
        memory = max(_LEAST_MEMORY, 2 * subject.weights + _LEAST_MEMORY)
        setting = f"transfer.memory_limit={memory}"
        arguments = ("serve", "--config", str(home / "sealcar.toml"), "--set", setting)
        served = stack.enter_context(Child("leash", *arguments, answering=False))
        socket = home / "run" / "default"
        client = stack.enter_context(connected(served, socket))
        _seal(client, subject, progress)
        scope = client.scope(NAME, subject.component, subject.variant)
        admin, store = home / "run" / "admin", home / "store"
        yield Daemon(str(socket), client, scope, served.pid, admin, store)


def _seal(client: Client, subject: Subject, progress: Watcher) -> None:
    """Import the model; what it takes for that, it lets go: a mapped file stays in the cache."""
    with publish.plan(subject.source, name=NAME, keep_inline=subject.keep_inline) as planned:
        client.catalogue.import_(planned, progress=progress)


@contextmanager
def running(subject: Subject, address: Sequence[str], socket: Path | None) -> Iterator[Daemon]:
    """Give the daemon that runs, if it has this very model.

    Args:
        subject: the model.
        address: package, component and variant in its store; empty where there is one only.
        socket: directory of its listener.

    Raises:
        RuntimeSupportError: there is none, or it lacks the model: then what to install.
        WrongStateError: it has another model there.
    """
    package, component, variant = (each or None for each in address)
    try:
        client = sealcar.connect(socket, timeout=3.0)
    except (UnavailableError, ConfigurationError) as error:
        raise _install(f"no daemon answers ({error})") from error
    with client:
        scope = client.scope(package or subject.model.stem, component, variant)
        try:
            payloads = {one.name: (one.kind, one.size) for one in scope.payloads}
        except RequestError as error:
            raise _install(f"the daemon that runs doesn't have the model ({error})") from error
        if payloads != dict(subject.sealed):
            raise WrongStateError(
                f"{scope.name.package} in the store of the daemon that runs isn't {subject.model}; "
                "name the package that was made of it with --package"
            )
        yield Daemon(str(client.location.directory), client, scope)


def _install(why: str) -> RuntimeSupportError:
    return RuntimeSupportError(
        f"a daemon is needed, and {why}; remedy: pip install 'sealcar[server]', for one that is "
        "made for the measurement alone, or import the model into the one that runs"
    )
