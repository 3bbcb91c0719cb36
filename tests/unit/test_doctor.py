"""What `sealcar doctor` makes of what a kernel, a daemon and a runtime say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sealcar._version import __version__
from sealcar.client import DaemonState
from sealcar.doctor import asking, machine, memory, running, serving, storing
from sealcar.doctor.findings import Finding, State, worst
from sealcar.doctor.machine import Handles
from sealcar.ort.compat import Plugin
from sealcar.oversight import AuditStatus, HardeningStep, Oversight, PolicyStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
ALL = Handles(process=True, unique=True, peer=True, sender=True)
SERVING = DaemonState(
    serving=True,
    release=__version__,
    isolation="uid",
    session="pidfd",
    sessions=1,
    transfers=0,
    memory=0,
    memory_limit=1,
    uptime=1,
    locked=False,
)
SEEN = Oversight(
    PolicyStatus(1, broken=False),
    AuditStatus(1, "00", writable=True),
    (HardeningStep("landlock", "on", ""),),
)


def states(found: list[Finding]) -> dict[str, State]:
    return {each.check: each.state for each in found}


def giving(files: Mapping[str, str]) -> machine.Read:
    return files.get


def swapping(*areas: str, **files: str) -> State:
    lines = "".join(f"{area} partition 1048572 0 -2\n" for area in areas)
    there = {memory.SWAPS: SWAPS + lines, **{f"/sys/block/{k}": v for k, v in files.items()}}
    return memory.swap(giving(there)).state


@pytest.mark.parametrize(
    ("release", "state"),
    [
        ("6.18.44-fc-v657\n", State.OK),
        ("5.14.0-427.el9.x86_64\n", State.OK),
        ("5.10.0\n", State.PROBLEM),
        ("strange\n", State.UNKNOWN),
    ],
)
def test_a_kernel_is_judged_by_its_release(release: str, state: State) -> None:
    assert machine.kernel(giving({machine.RELEASE: release})).state is state


@pytest.mark.parametrize(
    ("handles", "state", "word"),
    [
        (ALL, State.OK, "(pidfd)"),
        (replace(ALL, sender=False), State.WEAKER, "SO_PASSPIDFD"),
        (replace(ALL, unique=False), State.WEAKER, "(pidfd-shared)"),
        (replace(ALL, unique=False, peer=False, sender=False), State.WEAKER, "SO_PEERPIDFD"),
        (Handles(process=False, unique=False, peer=False, sender=False), State.WEAKER, "(conn"),
    ],
)
def test_a_weaker_identity_is_named_as_a_daemon_names_it(
    handles: Handles, state: State, word: str
) -> None:
    found = machine.identity(handles)
    assert found.state is state
    assert word in found.text
    assert bool(found.remedy) is (state is not State.OK)


def test_a_landlock_that_closes_less_is_weaker_and_the_rest_is_named() -> None:
    assert machine.landlock(7).state is State.OK
    assert "TCP" not in machine.landlock(5).text
    assert "not TCP" in machine.landlock(3).text
    assert "Function not" in machine.landlock(0, "Function not implemented").text
    for version in (0, 1, 3, 5):
        assert machine.landlock(version).state is State.WEAKER


def test_a_kernel_or_machine_without_filters_is_weaker() -> None:
    status = {machine.PROCESS: "Name:\tx\nSeccomp:\t0\n"}
    assert machine.seccomp(giving(status), "x86_64").state is State.OK
    assert machine.seccomp(giving(status), "riscv64").state is State.WEAKER
    assert machine.seccomp(giving({}), "x86_64").state is State.UNKNOWN
    assert machine.seccomp(giving({machine.PROCESS: "Name:\tx\n"}), "x86_64").state is State.WEAKER
    less = {**status, machine.ACTIONS: "kill_process log allow\n"}
    assert machine.seccomp(giving(less), "aarch64").state is State.WEAKER


def test_swap_is_a_problem_unless_it_is_known_to_be_sealed_or_cant_be_known() -> None:
    assert swapping() is State.OK
    assert swapping("/dev/sda2") is State.PROBLEM
    assert swapping("/swapfile") is State.WEAKER
    assert swapping("/dev/dm-1") is State.WEAKER
    assert swapping("/dev/dm-1", **{"dm-1/dm/uuid": "LVM-abc\n"}) is State.WEAKER
    assert swapping("/dev/dm-1", **{"dm-1/dm/uuid": "CRYPT-PLAIN-swap\n"}) is State.OK
    assert swapping("/dev/zram0") is State.WEAKER
    assert swapping("/dev/zram0", **{"zram0/backing_dev": "none\n"}) is State.OK
    assert swapping("/dev/zram0", **{"zram0/backing_dev": "/dev/sda3\n"}) is State.WEAKER
    assert memory.swap(giving({})).state is State.UNKNOWN


def test_one_plain_swap_beside_an_encrypted_one_is_a_problem() -> None:
    both = swapping("/dev/dm-1", "/dev/vdb", **{"dm-1/dm/uuid": "CRYPT-LUKS2-x\n"})
    assert both is State.PROBLEM


def test_cores_that_go_to_a_program_are_weaker_whatever_the_limit() -> None:
    def cores(pattern: str, limit: int) -> State:
        return memory.cores(giving({memory.CORES: pattern}), limit).state

    assert cores("|/usr/lib/systemd/systemd-coredump %P\n", 0) is State.WEAKER
    assert cores("@/run/coredump.socket\n", 0) is State.WEAKER
    assert cores("core\n", -1) is State.WEAKER
    assert cores("/var/cores/%p\n", 4096) is State.WEAKER
    assert cores("core\n", 0) is State.OK
    assert memory.cores(giving({}), 0).state is State.UNKNOWN


def test_processes_that_may_look_into_each_other_are_weaker() -> None:
    assert memory.tracing(giving({memory.TRACING: "1\n"})).state is State.OK
    assert memory.tracing(giving({memory.TRACING: "0\n"})).state is State.WEAKER
    assert memory.tracing(giving({})).state is State.WEAKER


def test_memory_that_cant_be_locked_is_weaker() -> None:
    assert memory.locking(-1).state is State.OK
    assert memory.locking(64 << 20).state is State.OK
    assert memory.locking(8 << 20).state is State.WEAKER
    assert memory.locking(0).state is State.WEAKER


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("always [madvise] never\n", State.OK),
        ("[always] madvise never\n", State.OK),
        ("always madvise [never]\n", State.WEAKER),
        ("", State.UNKNOWN),
    ],
)
def test_huge_pages_are_judged_by_the_setting_in_force(text: str, state: State) -> None:
    assert machine.huge_pages(giving({machine.HUGE_PAGES: text})).state is state


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("processor\t: 0\nflags\t\t: fpu pclmulqdq aes avx\n", State.OK),
        ("processor\t: 0\nflags\t\t: fpu vaes pclmulqdq\n", State.WEAKER),
        ("processor\t: 0\nFeatures\t: fp asimd aes pmull sha1\n", State.OK),
        ("processor\t: 0\nFeatures\t: fp asimd\n", State.WEAKER),
        ("processor\t: 0\n", State.UNKNOWN),
    ],
)
def test_a_processor_is_judged_by_the_instructions_that_it_lists(text: str, state: State) -> None:
    assert machine.aes(giving({machine.PROCESSOR: text})).state is state


def test_this_machine_is_looked_at_without_leaving_a_descriptor() -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    found = asking.this_machine()
    assert len(list(descriptors.iterdir())) == before
    assert len(states(found)) == len(found) == 10
    assert all(each.text.endswith(".") for each in found)


def test_every_finding_that_is_not_well_says_what_to_do() -> None:
    found = [
        *serving.judged(replace(SERVING, serving=False, isolation="none", session="connection")),
        *serving.judged(replace(SERVING, locked=True, release="0", session="pidfd-shared")),
        *serving.overseen(replace(SEEN, audit=None, hardening=())),
        *(running.callbacks(way) for way in ("bindings", "none")),
    ]
    assert all(each.remedy for each in found if each.state is not State.OK)


def test_a_daemon_is_judged_by_what_it_says() -> None:
    assert worst(serving.judged(SERVING)) is State.OK
    locked = states(serving.judged(replace(SERVING, locked=True)))
    assert locked["daemon"] is State.WEAKER
    assert states(serving.judged(replace(SERVING, serving=False)))["daemon"] is State.PROBLEM
    assert states(serving.judged(replace(SERVING, isolation="none")))["isolation"] is State.WEAKER
    assert states(serving.judged(replace(SERVING, session="new")))["session"] is State.UNKNOWN
    assert states(serving.judged(replace(SERVING, release="9")))["release"] is State.WEAKER


def test_what_operators_are_told_is_judged_step_by_step() -> None:
    assert worst(serving.overseen(SEEN)) is State.OK
    steps = (
        HardeningStep("landlock", "unavailable", "the kernel refuses"),
        HardeningStep("seccomp", "off", 'hardening.seccomp is "off"'),
        HardeningStep("no core", "on", ""),
    )
    found = states(serving.overseen(replace(SEEN, hardening=steps)))
    assert found["hardening: landlock"] is found["hardening: seccomp"] is State.WEAKER
    assert found["hardening: no core"] is State.OK
    broken = replace(
        SEEN, policy=PolicyStatus(1, broken=True), audit=AuditStatus(1, "00", writable=False)
    )
    found = states(serving.overseen(broken))
    assert found["policy"] is found["audit"] is State.PROBLEM


def test_a_plugin_is_judged_by_the_pairs_that_were_tested() -> None:
    known = Plugin("onnxruntime_x", "onnxruntime-x", {"2.7.0": ("1.31", "1.32")})

    def judged(installed: str | None, minor: int) -> Finding:
        return running.plugin(known, installed, (1, minor), stable=minor >= 31)

    assert judged("2.7.0", 32).state is State.OK
    assert judged("2.8.0", 32).state is State.WEAKER
    assert judged("2.7.0", 33).state is State.WEAKER
    assert judged("2.8.0", 30).state is State.OK
    assert "2.7.0 with 1.31, 1.32" in judged(None, 32).text


def test_the_installed_runtime_is_found_with_its_plugins() -> None:
    pytest.importorskip("onnxruntime")
    found = states(running.this_runtime())
    assert {"runtime", "callbacks", "plugin: onnxruntime-qnn"} <= found.keys()
    assert found["runtime"] is State.OK


def test_a_store_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    found = storing.store(tmp_path)
    assert states(found) == {"store": State.OK, "unchanged": State.OK}
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o777)
    assert states(storing.store(tmp_path))["store"] is State.PROBLEM


def test_what_is_no_store_is_a_problem(tmp_path: Path) -> None:
    assert states(storing.store(tmp_path / "none")) == {"store": State.PROBLEM}
    tmp_path.joinpath("file").touch()
    assert states(storing.store(tmp_path / "file")) == {"store": State.PROBLEM}


def test_a_file_system_that_takes_no_files_is_unknown() -> None:
    assert states(storing.store(Path("/proc/self")))["unchanged"] is State.UNKNOWN
