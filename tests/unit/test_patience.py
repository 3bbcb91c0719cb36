"""How long a message is waited for, and when it isn't."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sealcar.rpc import Patience

if TYPE_CHECKING:
    import pytest


class Call:
    """One that says whether it was cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancel(self) -> bool:
        self.cancelled.set()
        return True


def test_a_call_that_rests_is_not_cancelled_and_one_that_waits_is() -> None:
    call = Call()
    with Patience(call, 0.05) as patience:
        patience.rest()
        assert not call.cancelled.wait(0.3)
        patience.beat()
        assert call.cancelled.wait(10)
    assert patience.expired


def test_a_beat_that_comes_as_a_rests_time_passes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(threading.Event):
        """Has the beat come after the wait for it, and before anybody asks why it ended."""

        def wait(self, timeout: float | None = None) -> bool:
            came = super().wait(timeout)
            if not came and not beaten:
                beaten.append(call.cancelled.is_set())
                patience.beat()
            return came

    beaten: list[bool] = []
    call = Call()
    patience = Patience(call, 0.5)
    monkeypatch.setattr(patience, "_beat", Late())
    with patience:
        patience.rest()
        assert not call.cancelled.wait(0.6)
    assert beaten == [False]
    assert not patience.expired
