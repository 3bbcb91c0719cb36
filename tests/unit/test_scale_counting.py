"""What a bucket was asked is counted from its server's log; what a run gave, from its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scale.counting import RequestLog, counted
from scale.taking import Sample, figures, quantile

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = "models bench [30/November/2026:13:32:11 +0000] 198.18.113.1 bench"
# as versitygw 1.8 writes it, shortened behind the sizes
GATEWAY = [
    f"{_HEAD} 1A s3_PutObject a/1 /models/a/1 200 - 0 5 0 0 - x",
    f"{_HEAD} 1B s3_PutObject a/1 /models/a/1 412 Failed 0 6 0 0 - x",
    f"{_HEAD} 1C s3_HeadObject a/1 /models/a/1 200 - 0 0 0 0 - x",
    f"{_HEAD} 1D s3_GetObject a/1 /models/a/1 200 - 0 0 0 0 - x",
    f"{_HEAD} 1E s3_ListObjectsV2 - /models?list-type=2 200 - 9 0 0 0",
    f"{_HEAD} 1F s3_UploadPart a /models/a?partNumber=1 200 - 0 0 2 2",
    f"{_HEAD} 1G s3_CopyObject b /models/b 200 - 232 0 15 15 - x",
    f"{_HEAD} 1H s3_DeleteObjects - /models?delete 200 - 94 0 1 1",
    "log starts 2026-11-30 13:32:05.454864796 +0000 UTC m=+0.012066719",
]
# as moto's HTTP server writes it
MOTO = [
    '127.0.0.1 - - [30/Nov/2026 13:32:11] "PUT /models HTTP/1.1" 200 -',
    '127.0.0.1 - - [30/Nov/2026 13:32:11] "PUT /models/a/1 HTTP/1.1" 412 -',
    '127.0.0.1 - - [30/Nov/2026 13:32:11] "POST /models/a/1?uploads HTTP/1.1" 200 -',
    '127.0.0.1 - - [30/Nov/2026 13:32:11] "HEAD /models/a/1 HTTP/1.1" 200 -',
    '127.0.0.1 - - [30/Nov/2026 13:32:11] "GET /models/a/1 HTTP/1.1" 206 -',
    '127.0.0.1 - - [30/Nov/2026 13:32:11] "GET /models?list-type=2&prefix=a HTTP/1.1" 200 -',
    '127.0.0.1 - - [30/Nov/2026 13:32:11] "POST /models?delete HTTP/1.1" 200 -',
    " * Running on http://127.0.0.1:4000",
]


def test_requests_are_counted_by_kind_with_either_server() -> None:
    assert counted(GATEWAY) == {
        "PUT": 4,
        "HEAD": 1,
        "GET": 1,
        "LIST": 1,
        "DELETE": 1,
        "refused": 1,
    }
    assert counted(MOTO) == {"PUT": 2, "HEAD": 1, "GET": 1, "LIST": 1, "DELETE": 1, "refused": 1}


def test_a_log_is_counted_from_where_it_was_and_only_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(GATEWAY[0] + "\n" + GATEWAY[2][:40])
    log = RequestLog(path)
    assert log.count() == {"PUT": 1}
    assert log.count() == {}
    with path.open("a") as file:
        file.write(GATEWAY[2][40:] + "\n" + GATEWAY[3] + "\n")
    assert log.count() == {"HEAD": 1, "GET": 1}


def sample(seconds: float, *, calm: bool = True) -> Sample:
    return Sample(
        bytes=2_000_000_000,
        seconds=seconds,
        readers=(seconds, seconds / 2),
        first=(0.001, 0.003),
        requests={"GET": 10, "refused": 2},
        own_requests=0,
        passed=2_100_000_000,
        busy={"daemons": 3.0},
        calm=calm,
    )


def test_figures_are_of_the_calm_samples() -> None:
    found = figures([sample(1.0), sample(2.0), sample(100.0, calm=False)])
    assert found["gbps"] == pytest.approx(1.5)
    assert found["seconds"] == pytest.approx(1.5)
    assert found["first_byte_ms"] == pytest.approx({"p50": 3.0, "p99": 3.0})
    assert found["requests_per_gb"] == pytest.approx({"GET": 5.0, "refused": 1.0})
    assert found["core_seconds_per_gb"] == pytest.approx({"daemons": 1.5})
    assert found["passed_per_byte"] == pytest.approx(1.05)
    assert (found["samples"], found["disturbed"], found["first_bytes"]) == (2, 1, 4)
    # and if none was calm, of all
    assert figures([sample(4.0, calm=False)])["gbps"] == pytest.approx(0.5)


def test_a_quantile_is_a_value_that_was_there() -> None:
    assert quantile([float(each) for each in range(200)], 0.99) == 198
    assert quantile([3.0, 1.0], 0.99) == 3
    assert quantile([], 0.99) == 0
