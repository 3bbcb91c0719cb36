"""A listing can be narrowed, and tells nobody of what he may not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.asset_packages import AssetPackage
from support.services import ME, Running

from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.service.listing import Only
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QNN = "QNNExecutionProvider"
SMALL = {("det", "onnx", "model.onnx"): b"small"}
BOTH = {**SMALL, ("rec", "onnx", "model.onnx"): b"small"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Give a service with ocr in versions 1, 2 (current, compiled for QNN) and asr."""
    with Running(tmp_path) as running:
        running.import_("ocr", "1", payloads=BOTH)
        running.import_("ocr", "2", payloads=BOTH)
        running.import_("asr", "1", payloads=SMALL)
        transaction = running.begin(ScopeKey("ocr", "2", "rec", "qnn"))
        running.write(transaction, "model.onnx", b"compiled")
        running.commit(transaction, ep=QNN)
        yield running


def found(running: Running, only: Only) -> list[str]:
    return [f"{one.name}@{one.version}" for one in running.listing.list(ME, only=only)]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (Only(), ["asr@1", "ocr@1", "ocr@2"]),
        (Only(current=True), ["asr@1", "ocr@2"]),
        (Only(component="rec"), ["ocr@1", "ocr@2"]),
        (Only(current=True, component="rec"), ["ocr@2"]),
        (Only(component="none"), []),
        (Only(ep=QNN), ["ocr@2"]),
        (Only(ep=QNN, component="rec"), ["ocr@2"]),
        (Only(ep=QNN, component="det"), []),
        (Only(ep="qnnexecutionprovider"), []),
    ],
)
def test_a_listing_has_what_is_asked_for(running: Running, only: Only, expected: list[str]) -> None:
    assert found(running, only) == expected


def test_pages_of_a_narrowed_listing_are_full(running: Running) -> None:
    only = Only(component="rec")
    first = running.listing.list(ME, limit=1, only=only)
    assert [one.version for one in first] == ["1"]
    second = running.listing.list(ME, after=("ocr", "1"), limit=1, only=only)
    assert [one.version for one in second] == ["2"]
    assert running.listing.list(ME, after=("ocr", "2"), limit=1, only=only) == []


def test_a_component_that_the_caller_may_not_see_is_not_found_out(running: Running) -> None:
    running.close()
    grant = Grant(ME.uid, None, None, ("*",), ("det",), frozenset({Right.LIST}))
    with Running(running.root, policy=Policy((grant,))) as strict:
        assert found(strict, Only()) == ["asr@1", "ocr@1", "ocr@2"]
        assert found(strict, Only(component="det")) == ["asr@1", "ocr@1", "ocr@2"]
        assert found(strict, Only(component="rec")) == found(strict, Only(component="none")) == []
        assert found(strict, Only(ep=QNN)) == []


def test_a_variant_that_nobody_sealed_is_not_found(running: Running) -> None:
    path = running.generation(version="2", number=2) / "manifest.json"
    sealed = path.read_bytes()
    path.write_bytes(
        sealed.replace(b'"variants":{"onnx"', b'"variants":{"new":{"ep":"TheirEP"},"onnx"', 1)
    )
    assert path.read_bytes() != sealed
    assert found(running, Only(ep="TheirEP")) == []


def test_what_cant_be_read_is_listed_unless_something_of_it_is_asked_for(running: Running) -> None:
    (running.generation("asr") / "manifest.json").write_bytes(b"{}")
    assert "asr@1" in found(running, Only(current=True))
    assert "asr@1" not in found(running, Only(component="det"))


def test_what_was_listed_before_is_listed_as_it_is_now(running: Running) -> None:
    def told() -> list[tuple[str, int, int, bool]]:
        return [(s.version, s.generation, s.size, s.current) for s in running.listing.list(ME)]

    before = told()
    assert told() == before
    manifest = running.generation("asr") / "manifest.json"
    kept = manifest.read_bytes()
    manifest.write_bytes(b"{}")
    assert told() == [("1", 1, 0, True), *before[1:]]
    manifest.write_bytes(kept)
    assert told() == before
    running.import_("asr", "2", payloads=BOTH)
    first, *_ = before
    assert told() == [(*first[:3], False), ("2", 1, 2 * first[2], True), *before[1:]]


def test_shared_assets_are_counted_and_their_bytes_too(running: Running) -> None:
    package = AssetPackage.with_weights()
    package.import_into(running, "shared", "1")
    (summary,) = running.listing.list(ME, "shared")
    assert summary.assets == len(package.assets)
    detail = running.looking.get(ME, "shared")
    assert detail.summary == summary
    shared = sum(each.size for asset in detail.assets for each in asset.payloads)
    assert shared > 0
    assert summary.size >= shared
