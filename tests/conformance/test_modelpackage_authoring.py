"""Random edits, made here and in ONNX Runtime's own library, say and write the same."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from support import package_oracle

if package_oracle.AVAILABLE:
    from support.package_machine import Machine

    TestAuthoring = Machine.TestCase
    TestAuthoring.settings = settings(
        max_examples=100,
        stateful_step_count=15,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
else:
    pytestmark = pytest.mark.skip(reason="came with ONNX Runtime 1.32")
