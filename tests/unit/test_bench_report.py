"""The benchmark's summary: fixed names, goals, and what moved."""

from __future__ import annotations

from bench import summary

_FOUND = {
    "size": 1 << 30,
    "reads": {
        "sealcar, page + 64": {"seconds": 1.0},
        "plain, as an EP reads (zeroed, page + 16)": {"seconds": 4.0},
        "plain, page + 64": {"seconds": 2.0},
        "plain, page + 64, huge pages": {"seconds": 0.5},
        "decrypted to tmpfs, then as an EP reads": {"seconds": 8.0},
    },
    "writes": {"sealcar": {"seconds": 3.0}, "plain, write and fsync": {"seconds": 2.0}},
    "memory": {"client_over_buffer": 2 << 20, "daemon_peak": 50 << 20, "daemon_idle": 40 << 20},
    "small_read": {"p50": 0.0002, "p99": 0.001},
}
_SHARED = {
    "second_worker_available_vs_first": 0.05,
    "second_worker_touched_vs_first": 0.2,
    "workers8_pss_vs_one": 1.0,
}


def test_ratios_are_ours_over_the_reference() -> None:
    figures = summary.ratios(_FOUND, _SHARED)
    assert figures["blob_read_vs_qnn_like"] == 0.25
    assert figures["blob_read_vs_plain_huge"] == 2.0
    assert figures["overhead_mib_1gib"] == 12.0


def test_only_the_goal_that_is_missed_is_reported_as_missed() -> None:
    met = summary.goals(summary.ratios(_FOUND, _SHARED))
    assert [name for name, fine in met.items() if not fine] == ["blob_write_vs_plain"]


def test_what_moved_is_a_ratio_and_unknown_figures_are_left_out() -> None:
    assert summary.moved({"a": 3.0, "b": 1.0}, {"a": 2.0}) == {"a": 1.5}
    figures = summary.ratios(_FOUND, _SHARED)
    assert "NOT met" in summary.text(figures, None)
    assert "(x1.00)" in summary.text(figures, figures)
