"""docs/format.md says what the code does."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, Final

from sealcar_server.sealing import record
from sealcar_server.sealing.fields import b64
from sealcar_server.sealing.record import SealRecord, Transit

DOCUMENT: Final = (Path(__file__).parents[2] / "docs/format.md").read_text()
SHORT: Final = {"wrapped": 60}


def example() -> dict[str, Any]:
    """Return the document's record, its cut digests filled up to their size."""
    text = DOCUMENT.split("<!-- record -->")[1].split("```")[1].removeprefix("json")

    def filled(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {
            name: b64(bytes(SHORT.get(name, 32))) if str(value).endswith("…") else value
            for name, value in pairs
        }

    found: dict[str, Any] = json.loads(text, object_pairs_hook=filled)
    return found


def names_in(value: Any) -> set[str]:  # noqa: ANN401  (any JSON)
    if isinstance(value, list):
        return {name for item in value for name in names_in(item)}
    if isinstance(value, dict):
        return set(value) | {name for item in value.values() for name in names_in(item)}
    return set()


def test_the_example_is_a_record_that_uses_every_field() -> None:
    value = example()
    parsed = record.parse(json.dumps(value).encode())
    assert json.loads(record.serialise(parsed)) == value
    fields = {field.name for field in dataclasses.fields(SealRecord)}
    assert all(getattr(parsed, name) for name in fields - {"transit"})
    payloads = [*parsed.variants[0].payloads, *parsed.assets[0].payloads]
    for field in ("commitment", "digest", "sha256"):
        assert any(getattr(payload, field) for payload in payloads)


def test_a_record_in_transit_is_one_with_a_member_more() -> None:
    for transit in ({}, {"not_after": 4_102_444_800}):
        value = example() | {"transit": transit}
        parsed = record.parse(json.dumps(value).encode())
        assert parsed.transit == Transit(transit.get("not_after", 0))
        assert json.loads(record.serialise(parsed)) == value


def test_every_field_of_the_example_is_explained() -> None:
    explained = set(re.findall(r"`([a-z0-9_]+)`", DOCUMENT)) | {
        part for dotted in re.findall(r"`(kek\.[a-z]+)`", DOCUMENT) for part in dotted.split(".")
    }
    examples_own = {"ort", "sealcar"}
    assert names_in(example()) - examples_own <= explained
