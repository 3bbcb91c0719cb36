"""Hostile code inside the daemon reaches what the settings name, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment, run_command
from support.implant import DONE, HARMLESS, planted, wake
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish
from support.raw_clients import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root
X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="knows the numbers of x86-64 only")
REFUSED = {"EACCES", "EPERM", "EXDEV"}
STEPS = ["no core", "not dumpable", "umask 077", "no new privileges", "capabilities", "landlock"]
# as a kernel without Landlock and filters answers, or a container runtime that allows neither
LACKING = """
import ctypes, os, struct, sys
def op(code, value, yes=0, no=0):
    return struct.pack("=HBBI", code, yes, no, value)
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))
code = op(0x20, 0) + op(0x15, 444, no=1) + op(6, 0x50000 | 38)
code += op(0x15, 317, no=1) + op(6, 0x50000 | 22) + op(6, 0x7FFF0000)
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(6, code)), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """Give what hostile code achieved in a daemon that serves on afterwards."""
    folder = tmp_path_factory.mktemp("taken")
    with planted(folder) as outside, Daemon(folder) as daemon:
        with daemon.connect() as client:
            publish(client, {"small": b"plain words"})
        result = wake(daemon, [*HARMLESS, "calls"])
        assert outside.joinpath("file").read_text() == "somebody's own"
        assert [path.name for path in outside.iterdir()] == ["file"]
        with daemon.connect() as client:
            assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"plain words"
        yield result


def test_it_reads_lists_and_changes_no_file_that_the_settings_dont_name(
    found: dict[str, dict[str, str]],
) -> None:
    assert {name: how for name, how in found["files"].items() if how not in REFUSED} == {}


def test_it_starts_no_program(found: dict[str, dict[str, str]]) -> None:
    assert set(found["programs"].values()) == {"EACCES"}


def test_it_connects_to_nobody_listens_nowhere_and_signals_nobody(
    found: dict[str, dict[str, str]],
) -> None:
    assert found["ways out"] == {
        "connect": "EACCES",
        "listen": "EACCES",
        "abstract socket": "EPERM",
        "raw packets": "EAFNOSUPPORT",
        "signal": "EPERM",
    }


@X86
def test_it_looks_into_no_process_and_asks_nothing_of_the_kernel_that_the_daemon_never_does(
    found: dict[str, dict[str, str]],
) -> None:
    assert set(found["calls"].values()) == {"EPERM"}


def test_it_has_no_power_of_root(found: dict[str, dict[str, str]]) -> None:
    assert DONE not in found["powers"].values(), found["powers"]


def test_operators_see_each_step_and_why_one_is_left_out(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings={"hardening.seccomp": "off"}) as daemon:
        status = ("status", "--admin", str(daemon.admin))
        seen = run_command(*status, "--json", SEALCAR_SOCKET=str(daemon.socket))
        shown = run_command(*status, SEALCAR_SOCKET=str(daemon.socket))
    steps = json.loads(seen.stdout)["hardening"]
    off = {"step": "seccomp", "state": "off", "reason": 'hardening.seccomp is "off"'}
    assert steps == [*({"step": step, "state": "on", "reason": ""} for step in STEPS), off]
    assert f"hardening  {', '.join(STEPS)}\n" in shown.stdout
    assert 'seccomp off: hardening.seccomp is "off"\n' in shown.stdout


def test_every_thread_is_held_and_each_step_is_in_the_log(daemon: Daemon) -> None:
    for thread in Path(f"/proc/{daemon.pid}/task").iterdir():
        lines = (thread / "status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        held = {name: status[name] for name in ("Seccomp", "NoNewPrivs")}
        assert held == {"Seccomp": "2", "NoNewPrivs": "1"}, status["Name"]
        for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"):
            assert int(status[name], 16) == 0, (status["Name"], name)
    assert taken(daemon) == dict.fromkeys([*STEPS, "seccomp"], "on")


def test_what_the_settings_leave_out_isnt_held_and_the_log_says_why(tmp_path: Path) -> None:
    off = {f"hardening.{step}": "off" for step in ("landlock", "seccomp", "capabilities")}
    with planted(tmp_path), Daemon(tmp_path, settings=off) as daemon:
        found = wake(daemon)
        told = {line["step"]: line for line in daemon.log if line.get("event") == "hardening"}
    # so that the refusals above mean something
    assert found["files"]["read"] == found["files"]["make"] == DONE
    assert found["programs"] == {"of the machine": DONE, "of its own": DONE}
    assert found["ways out"]["connect"] == found["ways out"]["listen"] == DONE
    assert found["powers"]["read what another user keeps"] == DONE
    for step in ("landlock", "seccomp", "capabilities"):
        assert (told[step]["state"], told[step]["level"]) == ("off", "warning")
        assert told[step]["reason"] == f'hardening.{step} is "off"'


def test_paths_that_key_providers_need_can_be_named(tmp_path: Path) -> None:
    with planted(tmp_path) as outside:
        settings = {"hardening.readable": f"/nowhere:{outside}"}
        with Daemon(tmp_path, settings=settings) as daemon:
            found = wake(daemon)
    assert found["files"]["read"] == found["files"]["list"] == DONE
    assert found["files"]["write"] == "EACCES"


@X86
def test_a_kernel_that_lacks_a_step_is_told_and_fatal_only_if_the_step_is_required(
    tmp_path: Path,
) -> None:
    daemon = Daemon(tmp_path)
    command = [sys.executable, "-c", LACKING, *daemon.command()]
    for step in ("landlock", "seccomp"):
        refused = subprocess.run(
            [*command, f"--set=hardening.{step}=require"],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode == 3
        assert f'hardening.{step} is "require", and the kernel refuses' in refused.stderr
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        seen = ""
        while '"serving"' not in seen:
            line = process.stderr.readline()
            assert line, seen
            seen += line
        process.terminate()
        process.stderr.read()
    assert process.returncode == 0
    assert seen.count('"state": "unavailable", "reason": "the kernel refuses: ') == 2


@pytest.mark.parametrize("file", ["policy.toml", "..data/policy.toml"])
def test_a_policy_is_read_anew_after_its_file_or_its_mount_was_replaced(
    tmp_path: Path, file: str
) -> None:
    """As editors replace a file, and Kubernetes what it mounts."""
    mount = tmp_path / "mount"
    for name in ("..first", "..second"):
        (mount / name).mkdir(parents=True)
        (mount / name / "policy.toml").write_text(f"# {name}\n")
    (mount / "..data").symlink_to("..first")
    (mount / "policy.toml").symlink_to("..data/policy.toml")
    with Daemon(tmp_path, settings={"policy.file": str(mount / file)}) as daemon:
        (mount / "..new").symlink_to("..second")
        (mount / "..new").replace(mount / "..data")
        os.kill(daemon.pid, signal.SIGHUP)
        until(lambda: daemon.metric("sealcar_policy_generation") == 2)
        (mount / "..second" / "beside").write_text("# replaced\n")
        (mount / "..second" / "beside").replace(mount / "..second" / "policy.toml")
        os.kill(daemon.pid, signal.SIGHUP)
        until(lambda: daemon.metric("sealcar_policy_generation") == 3)
        assert daemon.metric("sealcar_policy_broken") == 0


def taken(daemon: Daemon) -> dict[str, str]:
    """Return how each step went, in the order of the log."""
    return {line["step"]: line["state"] for line in daemon.log if line.get("event") == "hardening"}
