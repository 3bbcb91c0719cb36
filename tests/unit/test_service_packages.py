"""The catalogue shows what the caller may know of, and verifies every byte."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.services import ME, MODEL, SOMEBODY, Running, everything_for

from sealcar.errors import DeniedError, InvalidRequestError, NotFoundError, SealcarError
from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.sealing.layout import FIRST_PIECE
from sealcar_server.sealing.reader import SMALL
from sealcar_server.service.assembly import Limits
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILES = {("det", "onnx", "model.onnx"): MODEL, ("rec", "onnx", "model.onnx"): b"small"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        for name, version in [("ocr", "1"), ("ocr", "2"), ("asr", "1"), ("ocr-de", "1")]:
            running.import_(name, version, payloads=FILES)
        yield running


def test_packages_are_listed_in_order_and_in_pages(running: Running) -> None:
    everything = [(s.name, s.version) for s in running.listing.list(ME)]
    assert everything == [("asr", "1"), ("ocr", "1"), ("ocr", "2"), ("ocr-de", "1")]
    assert [s.current for s in running.listing.list(ME)] == [True, False, True, True]
    paged, after = [], ("", "")
    while page := running.listing.list(ME, "", after, 1):
        paged += [after := (page[0].name, page[0].version)]
    assert paged == everything
    assert [s.name for s in running.listing.list(ME, "ocr-")] == ["ocr-de"]


def test_a_summary_counts_what_is_in_the_package(running: Running) -> None:
    summary = running.listing.list(ME, "asr")[0]
    assert (summary.generation, summary.components, summary.variants) == (1, 2, 2)
    assert (summary.payloads, summary.size) == (2, len(MODEL) + 5)


def test_verify_tells_how_far_it_is(running: Running) -> None:
    told: list[tuple[int, int, str]] = []
    verified = running.packages.verify(ME, "ocr", "", 0, lambda *step: told.append(step[:3]))
    total = len(MODEL) + 5
    assert (verified.generation, verified.payloads, verified.size) == (1, 2, total)
    assert told[-1] == (total, total, "model.onnx")
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)


def test_verify_ends_when_nobody_listens_any_more(running: Running) -> None:
    def gone(*_: object) -> None:
        raise InvalidRequestError("cancelled")

    with pytest.raises(InvalidRequestError, match="cancelled"):
        running.packages.verify(ME, "ocr", "", 0, gone)


CALLS: list[Callable[[Running, str], object]] = [
    lambda running, name: running.looking.get(ME, name),
    lambda running, name: running.packages.verify(ME, name, "", 0, lambda *_: None),
    lambda running, name: running.service.validator.validate(ME, name),
    lambda running, name: running.service.resealer.reseal(ME, name, "", None),
    lambda running, name: running.payloads.open(ME, ScopeKey(name, "", "det", "onnx")),
    lambda running, name: running.read(ScopeKey(name, "", "det", "onnx")),
    lambda running, name: running.begin(ScopeKey(name, "", "det", "new")),
]


def restarted(running: Running, policy: Policy) -> Running:
    running.close()
    return Running(running.root, policy=policy)


@pytest.mark.parametrize("call", CALLS)
def test_unknown_and_forbidden_look_the_same(
    running: Running, call: Callable[[Running, str], object]
) -> None:
    with restarted(running, everything_for(SOMEBODY.uid)) as strict:
        assert strict.listing.list(ME) == []
        found: list[SealcarError] = []
        for name in ("ocr", "xyz"):
            with pytest.raises(NotFoundError) as caught:
                call(strict, name)
            found.append(caught.value)
    assert str(found[0]).replace("ocr", "xyz") == str(found[1])
    assert type(found[0]) is type(found[1])


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_package_looks_like_a_forbidden_one(
    running: Running, call: Callable[[Running, str], object]
) -> None:
    with pytest.raises(NotFoundError) as unknown:
        call(running, "xyz")
    with (
        restarted(running, everything_for(SOMEBODY.uid)) as strict,
        pytest.raises(NotFoundError) as forbidden,
    ):
        call(strict, "xyz")
    assert str(unknown.value) == str(forbidden.value)


def test_who_may_list_is_told_what_he_lacks(running: Running) -> None:
    grant = Grant(ME.uid, None, None, ("ocr",), None, frozenset({Right.LIST}))
    with restarted(running, Policy((grant,))) as strict:
        assert [s.name for s in strict.listing.list(ME)] == ["ocr", "ocr"]
        assert strict.looking.get(ME, "ocr").summary.version == "2"
        for call in CALLS[1:]:
            with pytest.raises(DeniedError):
                call(strict, "ocr")


def test_a_grant_for_one_component_shows_that_one_alone(running: Running) -> None:
    grant = Grant(ME.uid, None, None, ("ocr",), ("det",), frozenset({Right.READ}))
    with restarted(running, Policy((grant,))) as strict:
        assert [v.component for v in strict.looking.get(ME, "ocr").variants] == ["det"]
        assert strict.read(ScopeKey("ocr", "", "det", "onnx")) == MODEL
        with pytest.raises((DeniedError, NotFoundError)):
            strict.read(ScopeKey("ocr", "", "rec", "onnx"))
        assert strict.looking.resolve(ME, ScopeKey("ocr", "", "det", "onnx"), "model.onnx").payloads
        with pytest.raises(NotFoundError):
            strict.looking.resolve(ME, ScopeKey("ocr", "", "rec", "onnx"), "model.onnx")


@pytest.mark.parametrize(
    ("scope", "what"),
    [
        (ScopeKey("ocr", "9", "det", "onnx"), "no package"),
        (ScopeKey("ocr", "", "det", "onnx", 9), "no generation 9"),
        (ScopeKey("ocr", "", "nope", "onnx"), "component 'nope'"),
        (ScopeKey("ocr", "", "det", "nope"), "variant 'nope'"),
    ],
)
def test_what_does_not_exist_is_not_found(running: Running, scope: ScopeKey, what: str) -> None:
    with pytest.raises(NotFoundError, match=what) as caught:
        running.payloads.open(ME, scope)
    assert (caught.value.place.phase, caught.value.place.package) == ("open", "ocr")


def test_an_unknown_payload_is_not_found(running: Running) -> None:
    with pytest.raises(NotFoundError, match="nope") as caught:
        running.read(ScopeKey("ocr", "", "det", "onnx"), "nope")
    place = caught.value.place
    assert (place.version, place.generation, place.payload) == ("2", 1, "nope")


def test_a_scope_needs_component_and_variant(running: Running) -> None:
    for scope in (ScopeKey("ocr", "", "", "onnx"), ScopeKey("ocr", "", "det", "")):
        with pytest.raises(InvalidRequestError):
            running.payloads.open(ME, scope)


def test_keys_show_their_health(running: Running) -> None:
    (status,) = running.service.keys.status()
    assert (status.alias, status.provider, status.available) == ("main", "file", True)
    assert status.cached > 0


def test_at_hand_is_what_is_one_segment_and_named_exactly_in_a_package_that_is_open(
    tmp_path: Path,
) -> None:
    sizes = {"small": SMALL, "one": FIRST_PIECE, "big": FIRST_PIECE + 1}
    big = {("det", "onnx", name): bytes(size) for name, size in sizes.items()}
    with Running(tmp_path, limits=Limits(opened_packages=1)) as running:
        running.import_("one", payloads=FILES | big)
        running.import_("two", payloads=FILES | big)
        one, two = (
            running.payloads.open(ME, ScopeKey(name, "", "det", "onnx")).scope
            for name in ("one", "two")
        )
        assert running.payloads.at_hand(two, "small")
        assert running.payloads.at_hand(two, "one"), "it is read when it is decrypted"
        assert not running.payloads.at_hand(two, "big"), "the end of it is read to be opened"
        assert running.payloads.at_hand(two, "absent"), "so is the refusal"
        assert not running.payloads.at_hand(one, "small"), "the newer one took its place"
        for vague in (replace(two, version=""), replace(two, generation=0)):
            assert not running.payloads.at_hand(vague, "small")
