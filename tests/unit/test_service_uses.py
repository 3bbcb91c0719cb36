"""What is known of removed generations: it is bounded, and the newest is kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sealcar.errors import NotFoundError
from sealcar_server.service.uses import REMOVED, Uses


def place(number: int) -> Any:  # noqa: ANN401  (where a generation would lie)
    return SimpleNamespace(name="ocr", version="1", number=number)


def test_a_removed_generation_is_refused_and_what_is_known_of_them_is_bounded() -> None:
    uses = Uses()
    uses.note(place(1))
    uses.end("ocr", "1", [1])
    with pytest.raises(NotFoundError, match="removed meanwhile"):
        uses.note(place(1))
    uses.end("ocr", "1", range(2, REMOVED + 2))
    for number in (2, REMOVED + 1):
        with pytest.raises(NotFoundError):
            uses.note(place(number))
    uses.note(place(1))
    assert uses.includes("ocr", "1", 1)
