"""What the policy bounds, whoever calls: the least generation of a package, and its room."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.sealed_exports import sealed_files, with_key_of
from support.services import ME, MODEL, Running, everything_for, manifest
from support.tampering import FILES, OTHER

from sealcar.errors import (
    ConfigurationError,
    DeniedError,
    ExhaustedError,
    RolledBackError,
)
from sealcar_server.access.bounds import Pin, Quota
from sealcar_server.access.policy import Policy
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE
from sealcar_server.service.assembly import Limits
from sealcar_server.service.pruning import Wanted
from sealcar_server.service.values import ImportPlan, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QNN = ScopeKey("ocr", "1", "det", "qnn")
KIB = 1 << 10
MIB = 1 << 20


def pinned(*pins: Pin, quotas: tuple[Quota, ...] = ()) -> Policy:
    return Policy(everything_for(ME.uid).grants, pins=pins, all_quotas=quotas)


@pytest.fixture
def two(root: Path) -> Path:
    """Give a daemon's directory with generations 1 and 2, where variant qnn is another."""
    with Running(root) as running:
        assert running.add_variant(QNN, OTHER[::-1]).generation == 2
    return root


@pytest.fixture
def old(two: Path) -> Path:
    """Give it as it was before generation 2, and a daemon that remembers nothing."""
    shutil.rmtree(two / "store/ocr/1/g/2")
    shutil.rmtree(two / "state")
    return two


def test_a_daemon_that_has_never_seen_more_refuses_what_is_older_than_its_pin(old: Path) -> None:
    with Running(old) as running:
        assert running.read(QNN) == OTHER, "without a pin it can't know"
    with Running(old, policy=pinned(Pin("ocr", "1", 2))) as running:
        for scope in (QNN, replace(QNN, generation=1), replace(QNN, version="")):
            with pytest.raises(RolledBackError, match="a pin of the policy allows"):
                running.read(scope)
        with pytest.raises(RolledBackError):
            running.looking.get(ME, "ocr")
        with pytest.raises(RolledBackError):
            running.begin(QNN)
        assert running.read(ScopeKey("det-only", "1", "det", "onnx")) == MODEL


def test_the_highest_pin_that_is_about_a_version_holds(two: Path) -> None:
    pins = (Pin("ocr", "1", 2), Pin("*", "*", 1), Pin("ocr", "2", 9), Pin("det-*", "*", 1))
    with Running(two, policy=pinned(*pins)) as running:
        assert running.read(QNN) == OTHER[::-1]
        with pytest.raises(RolledBackError):
            running.read(ScopeKey("ocr", "1", "det", "qnn", 1))
    with Running(two, policy=pinned(*pins, Pin("o?r", "*", 3))) as running:
        with pytest.raises(RolledBackError):
            running.read(QNN)
        assert running.read(ScopeKey("det-only", "1", "det", "onnx")) == MODEL


def test_what_is_pinned_is_not_pruned(two: Path) -> None:
    with Running(two, policy=pinned(Pin("ocr", "*", 2)), limits=Limits(used_lately=0)) as running:
        for data in (b"3", b"4", b"5"):
            running.add_variant(QNN, data)
        running.service.pruning.prune(ME, Wanted("ocr", keep=1))
        assert running.store.numbers("ocr", "1") == [5, 2]


def test_what_a_pin_forbids_does_not_come_in(root: Path, tmp_path: Path) -> None:
    policy = pinned(Pin("*", "*", 2))
    files = sealed_files(root / "store/ocr/1/g/1")
    with Running(with_key_of(root, tmp_path / "other"), policy=policy) as running:
        with pytest.raises(RolledBackError):
            files.send(running)
        with pytest.raises(RolledBackError, match="a pin"):
            running.import_("new")
        assert running.listing.list(ME) == []
        assert not list((running.store_path / ".staging").iterdir())


def test_if_pins_are_required_nobody_reads_what_has_none(two: Path) -> None:
    limits = Limits(require_pins=True)
    with Running(two, policy=pinned(Pin("det-only", "*", 1)), limits=limits) as running:
        with pytest.raises(DeniedError, match=r"add a \[\[pin\]\]"):
            running.read(QNN)
        with pytest.raises(DeniedError, match="require_pins"):
            running.payloads.open(ME, QNN)
        with pytest.raises(DeniedError, match="require_pins"):
            running.service.exporter.export(ME, ("ocr", "1", 0))
        # whoever writes the pin has to see what there is
        assert running.looking.get(ME, "ocr").summary.generation == 2
        running.packages.verify(ME, "ocr", "1", 0, lambda *_: None)
        assert running.read(ScopeKey("det-only", "1", "det", "onnx")) == MODEL
    with Running(two, policy=pinned(Pin("ocr", "1", 2)), limits=limits) as running:
        assert running.read(QNN) == OTHER[::-1]


BAD: dict[str, str] = {
    "min_generation": '[[pin]]\npackage = "a"\nmin_generation = 0',
    "must be a number": '[[pin]]\npackage = "a"',
    "pin 1: package": "[[pin]]\nmin_generation = 1",
    "pin 1: version": '[[pin]]\npackage = "a"\nversion = 1\nmin_generation = 1',
    "unknown key 'generation'": '[[pin]]\npackage = "a"\ngeneration = 1',
    "quota 1: packages": '[[quota]]\nbytes = "1GiB"',
    "quota 1: bytes": '[[quota]]\npackages = ["a"]\nbytes = "1 GB"',
    "two brackets": '[pin]\npackage = "a"',
    "quota 1: must be a table": "quota = [1]",
}


@pytest.mark.parametrize("what", BAD)
def test_a_pin_or_quota_that_is_none_refuses_the_whole_policy(tmp_path: Path, what: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(BAD[what])
    file.chmod(0o600)
    with pytest.raises(ConfigurationError) as caught:
        Policy.load(file)
    assert what in str(caught.value)


@pytest.fixture
def tight(root: Path) -> Iterator[Running]:
    """Give a daemon whose packages ocr and asr may take 10 MiB; ocr takes 8 MiB."""
    policy = pinned(quotas=(Quota(("ocr", "asr"), 10 * MIB), Quota(("*",), 100 * MIB)))
    with Running(root, policy=policy) as running:
        yield running


def begun(running: Running, name: str, **payloads: int) -> Any:  # noqa: ANN401  (an import's session)
    plan = ImportPlan(name, "1", json.dumps(manifest(*[("det", variant) for variant in payloads])))
    return running.packages.import_(ME, plan)


def test_an_import_over_a_quota_is_refused_before_its_bytes_come(tight: Running) -> None:
    with (
        pytest.raises(ExhaustedError, match=r"a quota of the policy gives ocr, asr 10485760 bytes"),
        begun(tight, "asr", onnx=1) as session,
    ):
        session.payload("det", "onnx", "model.onnx", "model", 4 * MIB)
    assert not list((tight.store_path / ".staging").iterdir())
    tight.import_("other", payloads=FILES)
    tight.import_("asr", payloads={("det", "onnx", "model.onnx"): bytes(MIB)})
    assert [each.name for each in tight.listing.list(ME)] == ["asr", "det-only", "ocr", "other"]


def test_what_others_are_writing_counts_until_they_give_it_up(tight: Running) -> None:
    with begun(tight, "asr", a=1) as first:
        first.payload("det", "a", "model.onnx", "model", MIB + 512 * KIB)
        with pytest.raises(ExhaustedError), begun(tight, "asr", a=1) as second:
            second.payload("det", "a", "model.onnx", "model", MIB)
        transaction = tight.begin(QNN)
        with pytest.raises(ExhaustedError):
            transaction.create("model.onnx", "model", MIB)
        first.abort()
        tight.write(transaction, "model.onnx", bytes(MIB))
        tight.commit(transaction)


def test_a_payload_of_unknown_size_ends_where_the_quota_does(tight: Running) -> None:
    transaction = tight.begin(QNN)
    with transaction.create("model.onnx", "model") as sink:
        sink.writer.seal_segment(0, tight.scratch, FIRST_PIECE, last=False)
        with pytest.raises(ExhaustedError):
            sink.writer.seal_segment(1, tight.scratch, PIECE, last=False)
    tight.write(transaction, "model.onnx", bytes(MIB))
    assert tight.commit(transaction).generation == 2


def test_an_unchanged_file_of_many_generations_counts_once(tight: Running) -> None:
    for _ in range(8):
        tight.add_variant(QNN, b"small")
    assert tight.store.numbers("ocr", "1")[0] == 9
    tight.close()
    # one that counts what is there, and hasn't seen it written
    policy = pinned(quotas=(Quota(("ocr",), 10 * MIB),))
    with Running(tight.root, policy=policy) as again:
        again.add_variant(QNN, bytes(MIB))


def test_what_is_pruned_makes_room_and_a_restart_forgets_nothing(root: Path) -> None:
    policy = pinned(quotas=(Quota(("ocr",), 12 * MIB),))
    for attempt in range(2):
        with Running(root, policy=policy, limits=Limits(used_lately=0)) as running:
            if not attempt:
                running.add_variant(QNN, bytes(3 * MIB))
                running.add_variant(QNN, b"small")
            with pytest.raises(ExhaustedError):
                running.begin(QNN).create("model.onnx", "model", 3 * MIB)
    with Running(root, policy=policy, limits=Limits(used_lately=0)) as running:
        running.service.pruning.prune(ME, Wanted("ocr", keep=1))
        running.add_variant(QNN, bytes(3 * MIB))


def test_a_sealed_export_over_a_quota_is_refused_at_its_manifest(
    root: Path, tmp_path: Path
) -> None:
    files = sealed_files(root / "store/ocr/1/g/1")
    policy = pinned(quotas=(Quota(("ocr",), 7 * MIB),))
    with Running(with_key_of(root, tmp_path / "other"), policy=policy) as running:
        plan = ImportPlan("ocr", "", files.manifest, sealed=True)
        with pytest.raises(ExhaustedError):
            running.packages.import_(ME, plan)
        assert not list((running.store_path / ".staging").iterdir())
    generous = pinned(quotas=(Quota(("ocr",), 9 * MIB),))
    with Running(tmp_path / "other", policy=generous) as running:
        assert files.send(running).generation == 1
        with pytest.raises(ExhaustedError):
            running.begin(QNN).create("model.onnx", "model", MIB)
