"""Who sent one package knows its key: with a hand on the store's disk he still forges no other."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.sealed_exports import sealed_files
from support.services import KEK, ME, MODEL, Running

from sealcar.errors import NotAuthenticError
from sealcar_server.keys.provider import package_context
from sealcar_server.sealing import record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.sealing.secret import SecretBuffer
from sealcar_server.service.composing import NAMESPACE
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.sealing.values import SealRecord

SCOPE = ScopeKey("ocr", "1", "det", "onnx")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Give a store with a package of its owner's, and one that somebody sent."""
    with Running(tmp_path) as running:
        running.import_()
        running.import_("sent", payloads={("det", "onnx", "model.onnx"): b"not your model"})
        yield running


def sealed_in(generation: Path) -> tuple[SealRecord, bytes]:
    text, _ = record.open_envelope(json.loads((generation / "manifest.json").read_text()))
    return record.parse(text), text


def forged(running: Running, *, number: int, package_id: bytes = b"") -> None:
    """Put what was sent in the place of the other package, as its sender can."""
    opener = running.service.exporter._opener
    opened = opener.open("sent")
    with opener.keys(opened) as keys:
        root = SecretBuffer.copy_of(keys._root.view)
    target = running.generation(number=number)
    before = running.generation(number=number - 1)
    sealed = replace(
        opened.record,
        name="ocr",
        generation=number,
        previous=record_digest(before) if before.exists() else b"",
    )
    if package_id:
        # what the store would hold had he chosen this id for the package that he sent
        own = running.keyring.wrap(KEK, root, package_context(package_id))
        sealed = replace(sealed, package_id=package_id, wrapped=own.blob, kek_version=own.version)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(running.generation("sent"), target)
    document = json.loads((target / "manifest.json").read_text())
    text = record.serialise(sealed)
    with PackageKeys(root, sealed.package_id) as keys:
        document["additional_metadata"][NAMESPACE] = record.envelope(text, keys.tag(text))
    (target / "manifest.json").write_text(json.dumps(document))


def record_digest(generation: Path) -> bytes:
    return hashlib.sha256(sealed_in(generation)[1]).digest()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("its_id", [False, True])
def test_a_generation_under_the_key_of_a_package_that_was_sent_is_refused(
    running: Running, *, its_id: bool, restarted: bool
) -> None:
    before = running.looking.get(ME, "ocr").package_id
    forged(running, number=2, package_id=before if its_id else b"")
    if restarted:
        running.close()
        running = Running(running.root)
    with running:
        with pytest.raises(NotAuthenticError, match="another package's key"):
            running.payloads.open(ME, SCOPE)
        shutil.rmtree(running.generation(number=2))
        assert running.read(SCOPE) == MODEL


def test_an_older_generation_under_the_key_of_a_package_that_was_sent_is_refused(
    running: Running,
) -> None:
    running.add_variant(ScopeKey("ocr", "1", "det", "qnn"))
    running.close()
    with Running(running.root) as again:
        forged(again, number=1)
        with pytest.raises(NotAuthenticError, match="another package's key"):
            again.payloads.open(ME, replace(SCOPE, generation=1))


def test_what_is_imported_sealed_has_the_key_of_the_package_that_is_there(
    running: Running,
) -> None:
    package_id = running.looking.get(ME, "ocr").package_id
    forged(running, number=2, package_id=package_id)
    files = sealed_files(running.generation(number=2))
    shutil.rmtree(running.generation(number=2))
    with pytest.raises(NotAuthenticError, match="another package's key"):
        files.send(running)
    assert running.read(SCOPE) == MODEL


def test_a_version_that_is_imported_again_after_its_removal_has_a_new_key(
    running: Running,
) -> None:
    running.service.removing.remove(ME, "ocr", "1")
    running.import_()
    running.close()
    with Running(running.root) as again:
        assert again.read(SCOPE) == MODEL
