"""What of the audit log a loss of power would leave: it is on the disk when it has to be.

Read out of the calls that a daemon makes, since no test takes the power away.
"""

from __future__ import annotations

import re
import shutil
import time
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon, answer
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
_CALL: Final = re.compile(r"^\d+ +(write|fsync|fdatasync|sendmsg)\(\d+<([^>]*)>(.*)")
AT_ONCE: Final = ["operator", "key", "key-export"]
ADDRESS: Final = f"{PACKAGE}/{COMPONENT}/{VARIANT}"


class Traced(Daemon):
    """A daemon whose calls that write are written down, in their order."""

    @property
    def calls(self) -> Path:
        return self.folder / "calls"

    def command(self) -> list[str]:
        """Return the command; the tracer is the daemon's grandchild, and hears no signal."""
        wanted = "trace=write,fsync,fdatasync,sendmsg"
        options = ["-D", "-f", "-y", "-s", "400", "--seccomp-bpf", "-e", wanted]
        return ["strace", *options, "-o", str(self.calls), *super().command()]

    def seen(self) -> list[str]:
        """Return what was done: events of the audit log, "synced", and "keys left"."""
        done = []
        for call, place, text in _matches(self.calls.read_text(errors="replace")):
            if "/audit/" not in place:
                done += ["keys left"] if "primaryKeyId" in text else []
            elif call == "write":
                done += re.findall(r'\\"event\\":\\"([a-z-]+)\\"', text)
            else:
                done.append("synced")
        return done


def _matches(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        if found := _CALL.match(line):
            yield found[1], found[2], found[3]


@pytest.fixture
def traced(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Traced]:
    interval: str = request.param
    settings = {"admin.tink_export": "true", "audit.sync_interval": interval}
    with Traced(tmp_path, settings=settings) as daemon:
        with daemon.connect() as client:
            publish(client, {"weights": b"w"})
        yield daemon


@pytest.mark.parametrize("traced", ["60"], indirect=True)
def test_lines_about_keys_and_operators_last_before_the_answer_goes_out(
    traced: Traced, tmp_path: Path
) -> None:
    known = len(traced.seen())
    answer(
        "keys",
        "export-tink",
        ADDRESS,
        str(tmp_path / "keys"),
        "--clear",
        "--admin",
        str(traced.admin),
    )
    until_seen(traced, "keys left", known)
    done = traced.seen()[known:]
    before = [what for what in done[: done.index("keys left")] if what in (*AT_ONCE, "synced")]
    # the request, the package's key that it is opened for, the keys that leave: each is on the disk
    # before anything goes on
    assert before == [each for event in AT_ONCE for each in (event, "synced")], done


@pytest.mark.parametrize("traced", ["0.2"], indirect=True)
def test_every_other_line_is_on_the_disk_within_the_interval(traced: Traced) -> None:
    time.sleep(0.5)
    known = len(traced.seen())
    with traced.connect() as client:
        client.scope(PACKAGE, COMPONENT, VARIANT).read("weights")
    time.sleep(0.2 + 0.5)
    done = traced.seen()[known:]
    last = max(at for at, what in enumerate(done) if what == "decision")
    assert "synced" in done[last:]


def until_seen(traced: Traced, what: str, known: int) -> None:
    end = time.monotonic() + 20
    while what not in traced.seen()[known:]:
        assert time.monotonic() < end, traced.seen()[known:]
        time.sleep(0.05)
