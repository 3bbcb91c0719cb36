"""What every suite shares: who may run what, and the daemon as a fixture."""

from __future__ import annotations

import os

import pytest

# a test may import onnxruntime before sealcar.ort, which would say that its switch comes too late
os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="changes uids: needs root")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)
