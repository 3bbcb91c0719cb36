"""Where the demonstration runs: a private directory, and a daemon of its own."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sealcar
from sealcar.demo.children import Child
from sealcar.errors import AlreadyExistsError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.client import Client
    from sealcar.demo.narrator import Narrator

# seconds that the daemon may take until it answers
START: Final = 30.0


@contextmanager
def place(kept: Path | None) -> Iterator[Path]:
    """Give a private directory: the one to keep, or one that is gone afterwards.

    Raises:
        AlreadyExistsError: the one to keep is there already.
    """
    if kept is not None:
        try:
            kept.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            raise AlreadyExistsError(f"{kept} is there already; name a new directory") from None
        yield kept.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="sealcar-demo-") as directory:
        yield Path(directory)


@contextmanager
def daemon(home: Path, narrator: Narrator) -> Iterator[tuple[Client, dict[str, str]]]:
    """Make a daemon's home, run the daemon, connect; at the end stop it and wait for it."""
    narrator.say("Making a key file (mode 0600), an empty store and a policy: `sealcar init`")
    with Child("leash", "init", str(home), answering=False) as init:
        init.finish()
    narrator.say("Starting the daemon: `sealcar serve`")
    listener = home / "run" / "default"
    with ExitStack() as stack:
        config = str(home / "sealcar.toml")
        served = Child("leash", "serve", "--config", config, answering=False)
        child = stack.enter_context(served)
        client = stack.enter_context(connected(child, listener))
        yield client, {"SEALCAR_SOCKET": str(listener)}


def connected(child: Child, listener: Path) -> Client:
    """Return a client of a daemon that has just been started.

    Raises:
        InternalError: the daemon ended; the message has its last words.
        UnavailableError: it doesn't answer in time.
    """
    deadline = time.monotonic() + START
    while True:
        child.check()
        try:
            return sealcar.connect(listener, peer_uid=os.getuid(), timeout=1.0)
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
