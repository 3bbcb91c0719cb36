"""What clients say of their traces, and what a collector does, costs the daemon little."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from support.collector import Collector

pytest.importorskip("opentelemetry.sdk")

from sealcar_server import otlp, traces

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE: Final = 0.5


def parent(trace: str = "c") -> str:
    return f"00-{trace * 32}-{'2' * 16}-01"


class Counts:
    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def __call__(self, result: str, count: int) -> None:
        self.of[result] += count


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A collector that takes connections and never answers."""
    monkeypatch.setattr(otlp, "_PATIENCE", PATIENCE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"


def test_a_state_that_is_none_or_too_long_is_neither_kept_nor_logged(
    counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    said = ("no state, but a line", "a=1,a=2", ",".join(f"k{at}=v" for at in range(40)))
    long = f"a={'x' * 250},b={'y' * 250},c={'z' * 250}"
    with Collector() as collector, traces.Traces(collector.endpoint, "1", counts) as made:
        for state in (*said, long, "a=1,b=2"):
            made.begin("read", parent(), state).end()
        made.close()
        kept = [span["traceState"] for span in collector.spans]
    assert sorted(kept) == ["", "", "", "", "a=1,b=2"]
    assert not caplog.records


def test_a_flood_of_spans_is_lost_and_counted_without_a_line_for_each(
    counts: Counts, silent: str, caplog: pytest.LogCaptureFixture
) -> None:
    many = 3 * traces._QUEUE
    made = traces.Traces(silent, "1", counts)
    for _ in range(many):
        made.begin("read", parent(), "").end()
    assert counts.of["lost"] >= many - 2 * traces._QUEUE
    begun = time.monotonic()
    made.close()
    # the batch under way and one more
    assert time.monotonic() - begun < 6 * PATIENCE
    assert counts.of == {"lost": many}
    assert len(caplog.records) <= 1


def test_a_connection_that_was_closed_while_it_was_idle_costs_no_span(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "_EVERY", 20)
    answered: list[bytes] = []

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                answered.append(connection.recv(1 << 20))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        server = threading.Thread(target=serve)
        server.start()
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with traces.Traces(endpoint, "1", counts) as made:
            for sent in (1, 2):
                made.begin("read", parent(), "").end()
                deadline = time.monotonic() + 10
                while not counts.of.total() >= sent:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
        server.join()
    assert len(answered) == 2
    assert counts.of == {"sent": 2}
