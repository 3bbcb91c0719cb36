from __future__ import annotations

import shutil
import subprocess
import time
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from support.daemon import Daemon
from support.onnx_bytes import TINY, model_of
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied

from sealcar.admin import Admin
from sealcar.errors import NotFoundError
from sealcar_server.metrics_store import StoreMetrics
from sealcar_server.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

# more than a ring holds: so the client gives slots back before the end
DATA = varied(9 << 20)
# base units of Prometheus, and suffixes of counters and of information
SUFFIXES = ("_bytes", "_seconds", "_info")
# counts of things have no unit
COUNTS = {
    "sealcar_sessions",
    "sealcar_rings",
    "sealcar_segments",
    "sealcar_denials",
    "sealcar_isolation",
    "sealcar_grpc_requests",
    "sealcar_policy_generation",
    "sealcar_policy_broken",
    "sealcar_refusals",
    "sealcar_rolled_back",
    "sealcar_tls_broken",
    "sealcar_audit_writable",
    "sealcar_locked",
    "sealcar_draining",
    "sealcar_connections",
    "sealcar_transfers",
    "sealcar_workers",
    "sealcar_work_queued",
    "sealcar_memory_waiting",
    "sealcar_key_cache",
    "sealcar_key_cache_keys",
    "sealcar_key_provider_up",
    "sealcar_key_provider_calls",
    "sealcar_policy_reload_failures",
    "sealcar_store_packages",
    "sealcar_store_versions",
    "sealcar_store_generations",
    "sealcar_spans",
    "sealcar_bucket_requests",
    "sealcar_cache_damaged",
}
LABELS = {
    "direction",
    "delivery",
    "phase",
    "rule",
    "mode",
    "method",
    "code",
    "le",
    "reason",
    "pages",
    "result",
    "alias",
    "operation",
    "outcome",
    "kind",
    "source",
}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon after one of everything."""
    with Daemon(tmp_path_factory.mktemp("d")) as daemon, daemon.connect() as client:
        publish(client, {"blob": DATA, "small": b"small"})
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        assert scope.read("blob") == DATA
        assert scope.read("small") == b"small"
        with client.begin(PACKAGE, COMPONENT, "w") as transaction:
            transaction.write("m.onnx", model_of(len(DATA)), "model")
            transaction.commit()
        with pytest.raises(NotFoundError):
            client.catalogue.get("absent")
        yield daemon


def address(daemon: Daemon) -> str:
    port = next(line["port"] for line in daemon.log if line["event"] == "metrics served")
    return f"http://127.0.0.1:{port}/metrics"


def base(daemon: Daemon) -> str:
    return address(daemon).removesuffix("/metrics")


def families(daemon: Daemon) -> list[Metric]:
    with urllib.request.urlopen(address(daemon), timeout=10) as answer:  # noqa: S310  (our own address)
        return list(text_string_to_metric_families(answer.read().decode()))


def test_every_metric_is_ours_described_and_in_a_base_unit(used: Daemon) -> None:
    found = families(used)
    assert found
    for family in found:
        assert family.documentation, family.name
        if family.name.startswith("process_"):
            continue  # of the library
        assert family.name.startswith("sealcar_")
        assert family.name in COUNTS or family.name.endswith(SUFFIXES), family.name


def test_no_label_holds_a_name_of_the_store_or_a_path(used: Daemon) -> None:
    for family in families(used):
        for sample in family.samples:
            if not sample.name.endswith("_info"):
                assert set(sample.labels) <= LABELS
            for value in sample.labels.values():
                assert value not in (PACKAGE, COMPONENT, VARIANT, "blob", "absent")
                assert "/" not in value


def test_bytes_are_counted_by_direction_and_delivery(used: Daemon) -> None:
    def moved(direction: str, delivery: str) -> float:
        return used.metric("sealcar_payload_bytes_total", direction=direction, delivery=delivery)

    assert moved("read", "ring") == len(DATA)
    assert moved("read", "packet") == len(b"small")
    assert moved("write", "ring") == len(DATA)
    assert moved("read", "grpc") == 0
    assert moved("write", "grpc") == len(DATA) + len(b"small") + len(TINY), "imports"


def test_seconds_are_told_by_phase(used: Daemon) -> None:
    for phase in ("open", "key", "seal", "publish", "memory"):
        assert used.metric("sealcar_phase_seconds_count", phase=phase) >= 1, phase
        assert used.metric("sealcar_phase_seconds_sum", phase=phase) < 60


def test_a_loads_time_is_split_by_where_it_goes(used: Daemon) -> None:
    parts = ("queue", "read", "decrypt", "place", "client-wait", "client-copy")
    for phase in parts:
        assert used.metric("sealcar_phase_seconds_count", phase=phase) >= 1, phase
    whole = used.metric("sealcar_transfer_seconds_sum", direction="read", delivery="ring")
    assert used.metric("sealcar_phase_seconds_sum", phase="client-wait") <= whole
    for phase in ("decrypt", "client-copy"):
        assert used.metric("sealcar_phase_seconds_sum", phase=phase) > 0


def test_keys_are_told_by_cache_and_provider(used: Daemon) -> None:
    def cache(result: str) -> float:
        return used.metric("sealcar_key_cache_total", result=result)

    assert cache("hit") >= 1
    assert cache("miss") >= 1
    assert used.metric("sealcar_key_cache_keys") >= 1
    assert used.metric("sealcar_key_provider_up", alias="default") == 1
    answered = used.metric("sealcar_key_provider_last_answer_timestamp_seconds", alias="default")
    assert 0 <= time.time() - answered < 60
    calls = {"alias": "default", "operation": "unwrap"}
    name = "sealcar_key_provider_calls_total"
    assert used.metric(name, outcome="done", **calls) == cache("miss")
    assert (name, frozenset({**calls, "outcome": "refused"}.items())) in used.metrics()


def test_the_store_is_counted(used: Daemon) -> None:
    assert used.metric("sealcar_store_counted_timestamp_seconds") > 0
    # at the start, when there was nothing
    assert used.metric("sealcar_store_packages") == 0
    assert used.metric("sealcar_store_free_bytes") > 0


def test_a_store_is_counted_with_each_file_once(used: Daemon) -> None:
    figures = StoreMetrics(CollectorRegistry())
    with LocalStore.open(used.store, read_only=True) as store:
        # whoever ends the daemon needn't wait for it
        figures.count(store, lambda: True)
        assert figures._counted._value.get() == 0
        figures.count(store)
    counts = (figures._packages, figures._versions, figures._generations)
    assert [one._value.get() for one in counts] == [1, 1, 2]
    size = figures._bytes._value.get()
    # the second generation shares the files of the first
    assert len(DATA) * 2 > size - len(DATA) // 2 > len(DATA) // 2


def test_a_probe_is_told_yes_or_no_and_nothing_else(used: Daemon) -> None:
    for path in ("livez", "readyz"):
        with urllib.request.urlopen(f"{base(used)}/{path}", timeout=10) as answer:  # noqa: S310  (our own)
            assert (answer.status, answer.read()) == (200, b"ok\n")
    for path in ("", "livez/more", "metricz"):
        with pytest.raises(urllib.error.HTTPError) as absent:
            urllib.request.urlopen(f"{base(used)}/{path}", timeout=10)  # noqa: S310  (our own)
        with absent.value as error:
            assert (error.code, error.read()) == (404, b"not found\n")


def test_a_locked_daemon_is_live_and_not_ready(used: Daemon) -> None:
    with Admin.at(used.admin) as admin:
        admin.lock()
        try:
            assert used.metric("sealcar_key_cache_keys") == 0
            with urllib.request.urlopen(f"{base(used)}/livez", timeout=10) as answer:  # noqa: S310  (our own)
                assert answer.status == 200
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{base(used)}/readyz", timeout=10)  # noqa: S310  (our own)
            with refused.value as error:
                assert (error.code, error.read()) == (503, b"no\n")
        finally:
            admin.unlock()


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian: prometheus)")
def test_promtool_finds_nothing_to_say(used: Daemon) -> None:
    with urllib.request.urlopen(address(used), timeout=10) as answer:  # noqa: S310  (our own address)
        text = answer.read()
    checked = subprocess.run(
        ["promtool", "check", "metrics"],  # noqa: S607  (of the system)
        input=text,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_sessions_rings_and_memory_are_those_of_now(used: Daemon) -> None:
    with used.connect() as client:
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("blob") == DATA
        assert used.metric("sealcar_sessions") == 1  # this process, however many connections
        rings = used.metric("sealcar_rings")
        assert rings >= 1
        assert used.metric("sealcar_memory_bytes") == rings * (8 << 20)
        assert used.metric("sealcar_memory_limit_bytes") == 256 << 20


def test_the_first_use_of_a_ring_that_was_not_made_ahead_is_told_apart(used: Daemon) -> None:
    with used.connect() as one, used.connect() as another:
        for client in (one, another):
            assert client.scope(PACKAGE, COMPONENT, VARIANT).read("blob") == DATA
        assert used.metric("sealcar_rings") >= 2
    assert used.metric("sealcar_phase_seconds_count", phase="first-touch") >= 1


def test_calls_are_counted_by_method_and_code(used: Daemon) -> None:
    name = "sealcar_grpc_requests_total"
    assert used.metric(name, method="PackageStore.Import", code="OK") == 1
    assert used.metric(name, method="PackageStore.Get", code="NOT_FOUND") == 1
    assert used.metric("sealcar_grpc_request_seconds_count", method="PackageStore.Get") == 1


def test_release_isolation_and_drain_are_told(used: Daemon) -> None:
    assert used.metric("sealcar_isolation", mode="none") == 1
    assert used.metric("sealcar_isolation", mode="uid") == 0
    assert used.metric("sealcar_draining") == 0
    (build,) = [family for family in families(used) if family.name.startswith("sealcar_build")]
    assert build.samples[0].labels["version"] == version("sealcar")


def test_every_rule_has_its_series_before_it_was_ever_used(used: Daemon) -> None:
    found = used.metrics()
    for rule in ("unknown", "right", "own-uid", "peer", "limit"):
        assert ("sealcar_denials_total", frozenset({("rule", rule)})) in found


def test_without_the_setting_nothing_is_served(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Daemon(tmp_path_factory.mktemp("d"), settings={"metrics.address": "off"}) as daemon:
        assert not [line for line in daemon.log if line["event"] == "metrics served"]
        assert not tcp_sockets(daemon.pid)


def tcp_sockets(pid: int) -> set[str]:
    """Return the inodes of TCP sockets that a process holds."""
    held = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        target = str(entry.readlink())
        if target.startswith("socket:["):
            held.add(target[8:-1])
    known: set[str] = set()
    for table in ("tcp", "tcp6"):
        lines = Path(f"/proc/net/{table}").read_text().splitlines()
        known |= {line.split()[9] for line in lines[1:]}
    return held & known
