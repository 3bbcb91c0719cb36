"""Whoever manages packages reaches nothing but packages, and only those he may manage."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support.asset_packages import AssetPackage
from support.services import ME, SOMEBODY, Running, everything_for
from support.tampering import FILES

from sealcar.errors import (
    DamagedError,
    DeniedError,
    InvalidNameError,
    InvalidRequestError,
    NotFoundError,
    SealcarError,
)
from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.sealing import record
from sealcar_server.service.assembly import Limits
from sealcar_server.service.pruning import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar_server.access.principal import Principal

CALLS: dict[str, Callable[[Running, Principal, str, str], object]] = {
    "choose": lambda running, who, name, version: running.service.choosing.choose(
        who, name, version
    ),
    "remove": lambda running, who, name, version: running.service.removing.remove(
        who, name, version
    ),
    "remove one": lambda running, who, name, version: running.service.removing.remove(
        who, name, version, 1
    ),
    "prune": lambda running, who, name, version: running.service.pruning.prune(
        who, Wanted(name, version, keep=1)
    ),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Give a service with two versions of a package, the older one in three generations."""
    with Running(tmp_path, limits=Limits(used_lately=0.0)) as running:
        running.import_("ocr", "1", payloads=FILES)
        for variant in ("a", "b"):
            running.add_variant(ScopeKey("ocr", "1", "det", variant))
        running.import_("ocr", "2", payloads=FILES)
        yield running


def again(running: Running, policy: Policy | None = None) -> Running:
    running.close()
    return Running(running.root, policy=policy, limits=Limits(used_lately=0.0))


def names(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*")}


@every_call
def test_who_may_not_know_of_a_package_cant_tell_it_from_one_that_isnt_there(
    running: Running, call: Callable[[Running, Principal, str, str], object]
) -> None:
    before = names(running.store_path)
    with again(running, everything_for(SOMEBODY.uid)) as strict:
        found: list[SealcarError] = []
        for name in ("ocr", "xyz"):
            with pytest.raises(NotFoundError) as caught:
                call(strict, ME, name, "1")
            found.append(caught.value)
    assert str(found[0]).replace("ocr", "xyz") == str(found[1])
    assert names(running.store_path) == before


@every_call
def test_every_other_right_together_is_no_right_to_manage(
    running: Running, call: Callable[[Running, Principal, str, str], object]
) -> None:
    before = names(running.store_path)
    others = frozenset(Right) - {Right.MANAGE}
    part = Grant(ME.uid, None, None, ("ocr",), ("det",), frozenset(Right))
    policy = Policy((Grant(ME.uid, None, None, ("*",), None, others), part))
    with again(running, policy) as strict, pytest.raises(DeniedError, match="'manage'"):
        call(strict, ME, "ocr", "1")
    assert names(running.store_path) == before


HOSTILE = (
    *("..", ".", "", "/", "../ocr", "ocr/..", "a/b", "ocr\0", "OCR", "ocr ", "-ocr", "a" * 65),
    *("current", "store.json", "assets", ".staging", ".lock", "g", "tombstone", "1\n"),
)


@every_call
def test_a_hostile_name_reaches_nothing(
    running: Running, call: Callable[[Running, Principal, str, str], object]
) -> None:
    before = names(running.store_path)
    for text in HOSTILE:
        for name, version in ((text, "1"), ("ocr", text), (text, text)):
            if version or call is not CALLS["prune"]:
                with pytest.raises((InvalidNameError, InvalidRequestError, NotFoundError)):
                    call(running, ME, name, version)
    assert names(running.store_path) == before


def test_no_change_of_a_single_byte_makes_a_pointer(running: Running) -> None:
    pointer = running.store_path / "ocr/current"
    whole = pointer.read_bytes()
    running.close()
    with Running(running.root) as strict:
        for at in range(0, len(whole) - 1, 7):
            forged = bytearray(whole)
            forged[at] ^= 1
            pointer.write_bytes(forged)
            for call in (CALLS["choose"], CALLS["remove"]):
                with pytest.raises(DamagedError):
                    call(strict, ME, "ocr", "1")
            assert pointer.read_bytes() == bytes(forged), "what is forged is evidence"
        pointer.write_bytes(whole)
        assert strict.service.choosing.choose(ME, "ocr", "1") == "2"


def test_the_pointer_of_another_store_makes_nothing_current(
    running: Running, tmp_path: Path
) -> None:
    with Running(tmp_path / "other") as other:
        other.import_("ocr", "1", payloads=FILES)
    shutil.copy(tmp_path / "other/store/ocr/current", running.store_path / "ocr/current")
    with again(running) as strict:
        for call in (CALLS["choose"], CALLS["remove"]):
            with pytest.raises(DamagedError):
                call(strict, ME, "ocr", "1")


@pytest.fixture
def outside(running: Running) -> Path:
    """Give a directory beside the store that must stay as it is."""
    folder = running.root / "outside"
    (folder / "g/1").mkdir(parents=True)
    (folder / "g/1/manifest.json").write_bytes(b"{}")
    (folder / "precious").write_bytes(b"x" * 100)
    return folder


def test_links_planted_in_the_store_lead_no_removal_out_of_it(
    running: Running, outside: Path
) -> None:
    store = running.store_path
    before = names(outside)
    (store / "ocr/3").symlink_to(outside)
    (store / "ocr/1/g/1/det/onnx/away").symlink_to(outside)
    (store / "ocr/1/g/1/det/away").symlink_to(outside / "precious")
    (store / ".staging/planted").symlink_to(outside)
    (store / ".staging/left").mkdir()
    (store / ".staging/left/away").symlink_to(outside)
    (store / "assets").mkdir(exist_ok=True)
    (store / "assets/away").symlink_to(outside / "precious")
    os.mkfifo(store / "assets/pipe")
    with pytest.raises((NotFoundError, DamagedError)):
        running.service.removing.remove(ME, "ocr", "3")
    pruned = running.service.pruning.prune(ME, Wanted(keep=1))
    assert pruned.generations == [("ocr", "1", 2), ("ocr", "1", 1)]
    assert not any((store / "assets").iterdir())
    assert not (store / ".staging/left").exists()
    running.service.removing.remove(ME, "ocr", "1")
    assert names(outside) == before
    assert (outside / "precious").read_bytes() == b"x" * 100


def test_what_is_read_while_it_is_removed_is_authentic_or_an_error(running: Running) -> None:
    scope = ScopeKey("ocr", "1", "det", "onnx")
    with running.payloads.read(ME, scope, "model.onnx", running.scratch) as source:
        running.service.removing.remove(ME, "ocr", "1")
        read = bytearray()
        # the descriptor is open: what it gives is what was sealed, to the end
        for index in range(source.reader.layout.count):
            span = source.reader.read_segment(index, running.scratch)
            read += running.scratch.plain[: span.plain_size]
        assert bytes(read) == FILES["det", "onnx", "model.onnx"]
        with pytest.raises(NotFoundError):
            source.permit.check()
    with pytest.raises(NotFoundError):
        running.read(scope)


def test_rights_are_named_one_by_one(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    for pattern in ("*", "ex*", "?ist", "export*"):
        policy.write_text(
            f'[[grant]]\nuid = {ME.uid}\npackages = ["*"]\nrights = ["list", "{pattern}"]\n'
        )
        policy.chmod(0o600)
        with pytest.raises(SealcarError, match="is no right"):
            Policy.load(policy)


@pytest.mark.parametrize(
    "place", [{"name": "assets"}, {"name": "store.json"}, {"version": "current"}], ids=str
)
def test_an_entry_of_the_asset_index_that_names_what_is_no_package_goes_when_pruning(
    running: Running, place: dict[str, str]
) -> None:
    AssetPackage.with_weights().import_into(running, "shared")
    index = running.store_path / "assets"
    (entry,) = index.iterdir()
    label = "0" * 64
    said = {"label": label, "name": "shared", "version": "1", "generation": 1, "uri": "x", **place}
    forged = record.envelope(json.dumps(said).encode(), bytes(32))
    (index / label).write_text(json.dumps(forged))
    running.service.pruning.prune(ME, Wanted())
    assert list(index.iterdir()) == [entry]


def test_what_was_shredded_lately_keeps_nothing_else_from_being_pruned(running: Running) -> None:
    running.import_("gone")
    running.service.keys.shred("gone", "1")
    running.import_("gone", "2")
    pruned = running.service.pruning.prune(ME, Wanted(keep=1))
    assert pruned.generations == [("ocr", "1", 2), ("ocr", "1", 1)]
