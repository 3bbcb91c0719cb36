"""Sockets that clients connect to, and who may serve on them.

A lock file beside the sockets decides: while its holder lives, no other daemon serves there; the
kernel drops the lock when the holder dies, however it dies. So whatever socket lies there then is
stale, and is replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket as sockets
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GRPC: Final = "grpc.sock"
DATA: Final = "data.sock"
FLOW: Final = "flow.sock"  # data.sock for those who can't be handed descriptors
ADMIN: Final = "admin.sock"
LOCK: Final = ".lock"
MAX_PATH: Final = 107  # bytes of sockaddr_un's path, less the terminating NUL
_BACKLOG: Final = 512
_NEW: Final = ".new"


def socket_path(folder: Path, name: str) -> Path:
    """Return the path of a socket, if the kernel can take it.

    Raises:
        ConfigurationError: it is too long.
    """
    path = folder / name
    length = len(os.fsencode(path))
    if length > MAX_PATH:
        raise ConfigurationError(
            f"{path}: a socket's path has at most {MAX_PATH} bytes, this one has {length}; "
            "choose a shorter directory"
        )
    return path


@contextlib.contextmanager
def sole_server(folder: Path) -> Iterator[None]:
    """Be the only daemon of a directory.

    Raises:
        ResourceError: another one is.
        ConfigurationError: the directory can't be written.
    """
    path = folder / LOCK
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path}: can't be made: {error.strerror}") from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise ResourceError(
                f"another daemon (pid {holder}) serves in {folder}; stop it first, or give this "
                "one other directories"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def listen(
    path: Path,
    kind: sockets.SocketKind,
    mode: int,
    group: int | None,
    *,
    prepare: Callable[[sockets.socket], None] = lambda _listener: None,
) -> sockets.socket:
    """Return a listening socket of this mode and group; it replaces a stale one at once.

    `prepare` sets options that have to be there before the first client.

    Raises:
        ConfigurationError: it can't be made there.
    """
    new = path.with_name(_NEW)
    listener = sockets.socket(sockets.AF_UNIX, kind)
    try:
        new.unlink(missing_ok=True)
        listener.bind(str(new))
        if group is not None:
            os.chown(new, -1, group)
        new.chmod(mode)
        prepare(listener)
        listener.listen(_BACKLOG)
        new.replace(path)
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"{path}: can't listen there: {error.strerror}") from error
    return listener
