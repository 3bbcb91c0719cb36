"""A real daemon process, made and run the way a user would."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from prometheus_client.parser import text_string_to_metric_families

import sealcar
from sealcar.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sealcar.client import Client

COMMAND: Final = (sys.executable, "-m", "sealcar.cli.main")
READY: Final = "serving"
_RIGHTS: Final = ("list", "read", "write", "import", "verify")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without anything that could reach daemon or client."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SEALCAR")}
    return {**kept, **(extra or {})}


def run_command(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run `sealcar` to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(extra),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def answer(*arguments: str, code: int = 0) -> dict[str, Any]:
    """Have `sealcar` answer in this process, which is faster: one JSON object, and its exit code.

    For tests of what a daemon does. What the command itself does, `run_command` tests.
    """
    with contextlib.redirect_stdout(io.StringIO()) as said:
        ended = main.run([*arguments, "--json"])
    assert ended == code, said.getvalue()
    value = json.loads(said.getvalue())
    assert isinstance(value, dict)
    return value


class Daemon:
    """A daemon with a directory of its own below `tmp_path`; use as a context manager.

    Args:
        tmp_path: where it is made.
        settings: over those that `sealcar init` wrote, as "section.key".
        init: options of `sealcar init`.
        reachable: put the sockets where every uid of the machine can connect, mode 0666.

    Attributes:
        folder: what `sealcar init` made.
        socket: directory of the listener, as `sealcar.connect` takes it.
        store: directory of the store.
    """

    def __init__(
        self,
        tmp_path: Path,
        *,
        settings: Mapping[str, str] | None = None,
        init: Iterable[str] = (),
        reachable: bool = False,
    ) -> None:
        self.folder = tmp_path / "d"
        self.store = self.folder / "store"
        self.socket = self.folder / "run" / "default"
        self.admin = self.folder / "run" / "admin"
        self.log_path = tmp_path / "daemon.log"
        self.settings = {"log.format": "json", "metrics.address": "127.0.0.1:0"}
        self._open_folder: Path | None = None
        if reachable:
            self._open_folder = Path(tempfile.mkdtemp(prefix="sealcar-"))
            self._open_folder.chmod(0o755)
            self.socket = self._open_folder / "default"
            self.settings |= {
                "listen.default.dir": str(self.socket),
                "listen.default.mode": "0666",
            }
        self.settings |= settings or {}
        self.process: subprocess.Popen[bytes] | None = None
        # in this process: hundreds of tests begin with it, and a process of its own takes longer
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = main.run(["init", str(self.folder), *init])
        assert code == 0, said.getvalue()

    @property
    def config(self) -> Path:
        return self.folder / "sealcar.toml"

    @property
    def policy(self) -> Path:
        return self.folder / "policy.toml"

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def command(self) -> list[str]:
        flags = [f"--set={key}={value}" for key, value in self.settings.items()]
        return [*COMMAND, "serve", "--config", str(self.config), *flags]

    def grant(
        self,
        uid: int,
        packages: Iterable[str] = ("*",),
        rights: Iterable[str] = _RIGHTS,
        components: Iterable[str] | None = None,
    ) -> None:
        """Add a grant; a daemon that runs notices it soon, and at once when told by `reload`."""
        lines = ["", "[[grant]]", f"uid = {uid}", f"packages = {json.dumps(list(packages))}"]
        lines.append(f"rights = {json.dumps(list(rights))}")
        if components is not None:
            lines.append(f"components = {json.dumps(list(components))}")
        with self.policy.open("a") as file:
            file.write("\n".join(lines) + "\n")

    def start(self, timeout: float = 30) -> Self:
        """Start it, and return once it serves."""
        self.log_path.write_bytes(b"")
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                # as in the unit of systemd: without it, a daemon begins twice
                env=environment({"LD_BIND_NOW": "1"}),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + timeout
        while not any(line.get("event") == READY for line in self.log):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the daemon doesn't serve:\n{self.log_path.read_text()}")
            time.sleep(0.02)
        return self

    def connect(self, **options: Any) -> Client:  # noqa: ANN401  (connect's own)
        """Return a connected client of this process."""
        return sealcar.connect(self.socket, **options)

    @property
    def log(self) -> list[dict[str, Any]]:
        """Every event so far; a line that isn't JSON is an event of its own."""
        return [_event(line) for line in self.log_path.read_text().splitlines(keepends=False)]

    def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return every sample of /metrics, by name and labels."""
        port = next(line["port"] for line in self.log if line.get("event") == "metrics served")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def metric(self, name: str, **labels: str) -> float:
        """Return one sample; 0 if there is none yet."""
        return self.metrics().get((name, frozenset(labels.items())), 0.0)

    def stop(self, timeout: float = 60) -> int:
        """Send SIGTERM and return the exit code."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def kill(self) -> None:
        """Send SIGKILL, and wait until it is gone; fine if it is."""
        if self.process:
            self.process.kill()
            self.process.wait(30)

    def __enter__(self) -> Self:
        return self if self.process else self.start()

    def __exit__(self, *_: object) -> None:
        try:
            if self.process and self.process.poll() is None:
                code = self.stop()
                assert code == 0, self.log_path.read_text()
        finally:
            self.kill()
            if self._open_folder:
                shutil.rmtree(self._open_folder, ignore_errors=True)


def _event(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {"event": line}
    return value if isinstance(value, dict) else {"event": line}
