"""One load is one trace, by OpenTelemetry's own SDK on both sides: from `ort.load` to the key."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from support import flows
from support.collector import Collector, attributes
from support.daemon import Daemon, environment

from sealcar.v1 import data_socket_pb2 as pb

pytest.importorskip("opentelemetry.sdk")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.collector import Span

PACKAGE = "traced-model"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def daemon(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    # each opening asks for the key again
    settings = {"traces.endpoint": collector.endpoint, "daemon.key_lifetime": "0"}
    daemon = Daemon(tmp_path_factory.mktemp("d"), settings=settings)
    with daemon, daemon.connect() as client:
        model, weights = flows.moved_out(flows.leftover_model(seed=1))
        folder = tmp_path_factory.mktemp("m") / "m"
        flows.publish_model(client, folder, PACKAGE, model=model, weights=weights)
        yield daemon


@pytest.fixture(scope="module")
def told(daemon: Daemon) -> list[dict[str, Any]]:
    """The spans of an application that loads."""
    arguments = [str(daemon.socket), PACKAGE]
    done = subprocess.run(
        [sys.executable, "-m", "support.traced_program", *arguments],
        env=environment({"PYTHONPATH": "tests", "ORT_DISABLE_TELEMETRY": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def named(told: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [span for span in told if span["name"] == name]


def digits(number: str) -> str:
    return number.removeprefix("0x")


def trace_of(span: dict[str, Any]) -> str:
    return digits(span["context"]["trace_id"])


def path_to(root: str, span: Span, theirs: dict[str, Span], ours: dict[str, str]) -> list[str]:
    """Return the names from a span of the daemon up to where the client's trace began."""
    names = [span["name"]]
    at = span["parentSpanId"]
    while at in theirs:
        names.append(theirs[at]["name"])
        at = theirs[at]["parentSpanId"]
    while at != root:
        assert at in ours, (names, at)
        at = ours[at]
    return names


def test_one_load_is_one_trace_from_the_call_to_the_key(
    daemon: Daemon, collector: Collector, told: list[dict[str, Any]]
) -> None:
    first, shared = named(told, "sealcar.load")
    for load, reading in ((first, "sealcard.read"), (shared, "sealcard.segment")):
        trace = trace_of(load)
        inside = [span for span in told if trace_of(span) == trace]
        names = {span["name"] for span in inside}
        assert names == {"sealcar.load", "sealcar.open", "sealcar.read", "sealcar.session"}
        ours = {
            digits(span["context"]["span_id"]): digits(span["parent_id"] or "") for span in inside
        }
        spans = collector.wait_for("sealcard.decrypt", trace)
        theirs = {span["spanId"]: span for span in spans}
        root = digits(load["context"]["span_id"])
        paths = {tuple(path_to(root, span, theirs, ours)) for span in spans}
        assert ("sealcard.open",) in paths
        assert ("sealcard.key.unwrap", "sealcard.key", reading) in paths
        assert ("sealcard.decrypt", reading) in paths
        # parts lie inside of what they are parts of, by the clock of the daemon
        for span in spans:
            whole = theirs.get(span["parentSpanId"])
            assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
            if whole is not None:
                assert int(span["startTimeUnixNano"]) >= int(whole["startTimeUnixNano"]) - 10**7
    assert trace_of(first) != trace_of(shared)
    assert daemon.metric("sealcar_spans_total", result="sent") >= len(collector.spans) > 0


def test_reads_are_parts_of_the_load_with_name_size_and_way(told: list[dict[str, Any]]) -> None:
    (load, _) = named(told, "sealcar.load")
    reads = [one for one in named(told, "sealcar.read") if trace_of(one) == trace_of(load)]
    assert {one["attributes"]["sealcar.payload"] for one in reads} == {"model.onnx", flows.WEIGHTS}
    for one in reads:
        assert one["attributes"]["sealcar.size"] > 0
        assert one["attributes"]["sealcar.delivery"] == "ring"
        assert one["parent_id"] == load["context"]["span_id"]
    (session,) = [one for one in named(told, "sealcar.session") if trace_of(one) == trace_of(load)]
    assert session["parent_id"] == load["context"]["span_id"]
    assert load["attributes"]["sealcar.package"] == PACKAGE


def test_what_a_provider_reads_on_a_thread_of_its_own_belongs_to_the_load(
    collector: Collector, told: list[dict[str, Any]]
) -> None:
    (outer,) = named(told, "foreign thread")
    (read,) = [one for one in named(told, "sealcar.read") if trace_of(one) == trace_of(outer)]
    assert read["parent_id"] == outer["context"]["span_id"]
    spans = collector.wait_for("sealcard.read", trace_of(outer))
    (theirs,) = [span for span in spans if span["name"] == "sealcard.read"]
    assert theirs["parentSpanId"] == digits(read["context"]["span_id"])


def test_what_fails_says_its_class_and_the_request_whose_line_has_the_trace(
    daemon: Daemon, collector: Collector, told: list[dict[str, Any]]
) -> None:
    (failed,) = [
        one for one in named(told, "sealcar.open") if one["status"]["status_code"] == "ERROR"
    ]
    assert failed["attributes"]["error.type"] == "NotFoundError"
    (line,) = [line for line in daemon.log if line["event"] == "request refused"]
    assert line["request_id"] == failed["attributes"]["sealcar.request_id"]
    assert line["trace_id"] == trace_of(failed)
    (theirs,) = collector.wait_for("sealcard.open", trace_of(failed))
    assert theirs["status"] == {"code": 2}
    said = attributes(theirs)
    assert said["error.type"] == "NotFoundError"
    assert said["sealcar.request_id"] == line["request_id"]


def test_the_daemons_spans_hold_no_name_of_the_store(
    collector: Collector, told: list[dict[str, Any]]
) -> None:
    assert told
    allowed = {"sealcar.request_id", "sealcar.alias", "error.type"}
    for span in collector.spans:
        for key, value in attributes(span).items():
            assert key in allowed or key.startswith("sealcar.seconds."), key
            if key == "sealcar.alias":
                assert value == "default"
    for body in collector.bodies:
        text = json.dumps(body)
        for name in (PACKAGE, "model.onnx", flows.WEIGHTS, "absent", "/"):
            assert name not in text


def test_no_place_in_a_trace_or_one_that_is_not_recorded_is_no_trace_here(
    daemon: Daemon, collector: Collector
) -> None:
    recorded = f"00-{'c' * 32}-{'2' * 16}-01"
    unrecorded = f"00-{'a' * 32}-{'2' * 16}-00"
    odd = ("", "00-0-0-0", "x" * 5000, f"00-{'0' * 32}-{'2' * 16}-01", recorded.upper(), unrecorded)
    with daemon.connect() as client, client._pool.leased() as connection:
        for said in (*odd, recorded):
            packet = pb.ClientPacket(state=pb.StateRequest(), traceparent=said, tracestate=said)
            connection.send(packet)
            assert connection.answer("state").state.serving
        assert client.scope(PACKAGE).read("model.onnx")
    (one,) = collector.wait_for("sealcard.state", "c" * 32)
    assert one["parentSpanId"] == "2" * 16
    assert [span["traceId"] for span in collector.spans if span["name"] == one["name"]] == [
        "c" * 32
    ]


def test_a_collector_that_is_gone_costs_spans_and_no_request(
    daemon: Daemon, collector: Collector
) -> None:
    collector.status = 503
    try:
        with daemon.connect() as client, client._pool.leased() as connection:
            said = f"00-{'d' * 32}-{'2' * 16}-01"
            connection.send(pb.ClientPacket(state=pb.StateRequest(), traceparent=said))
            assert connection.answer("state").state.serving
        deadline = time.monotonic() + 20
        while not daemon.metric("sealcar_spans_total", result="lost"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        collector.status = 200
    (line,) = [line for line in daemon.log if line["event"] == "traces can't be sent"]
    assert line["reason"] == "the collector answered 503"


NOWHERE = """
import sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        assert not name.startswith("opentelemetry"), name
sys.meta_path.insert(0, Watch())
from sealcar.cli import main
sys.exit(main.run(sys.argv[1:]))
"""


def test_a_daemon_without_the_setting_imports_none_of_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.command = lambda: [sys.executable, "-c", NOWHERE, *Daemon.command(daemon)[3:]]  # type: ignore[method-assign]
    with daemon, daemon.connect() as client:
        assert list(client.catalogue.list()) == []


def test_without_the_extra_the_setting_is_refused_with_the_remedy(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, settings={"traces.endpoint": "http://127.0.0.1:1/v1/traces"})
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "sitecustomize.py").write_text("import sys\nsys.modules['opentelemetry'] = None\n")
    done = subprocess.run(
        daemon.command(),
        env=environment({"PYTHONPATH": str(missing)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "pip install 'sealcar[otel]'" in done.stderr
