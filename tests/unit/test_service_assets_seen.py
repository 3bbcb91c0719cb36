"""Shared assets are shown, resolved, validated, verified and carried into resealed generations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.asset_packages import (
    VOCABULARY,
    WEIGHTS,
    AssetPackage,
    asset_folders,
    ort,
    sealed_uri,
    uri_of,
)
from support.services import ME, Running
from support.tampering import edit_manifest, flip

from sealcar.errors import InvalidPackageError, NotAuthenticError, NotFoundError
from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.service.resealing import Resealed

PLAIN = uri_of(VOCABULARY)
OTHER = {"other.txt": b"of the other component"}
SCOPE = ScopeKey("ocr", "1", "det", "onnx")
UNKNOWN = f"sha256:{64 * 'a'}"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        assets = {PLAIN: VOCABULARY, uri_of(OTHER): OTHER}
        scopes = {
            ("det", "onnx"): ort("model.onnx", **{WEIGHTS: PLAIN}),
            ("rec", "onnx"): ort("model.onnx", **{WEIGHTS: uri_of(OTHER)}),
        }
        AssetPackage(assets, scopes).import_into(running)
        yield running


def uri(running: Running, file: str = "vocab.txt") -> str:
    """Return the URI, as it is in the store, of the asset that holds a file."""
    folders = asset_folders(running.generation())
    return next(sealed_uri(folder) for folder in folders if (folder / file).exists())


def resolved(running: Running, reference: str) -> list[str]:
    found = running.looking.resolve(ME, SCOPE, reference)
    return [payload.name for payload in found.payloads]


def reseal(running: Running) -> Resealed:
    seen = running.service.resealer.reseal(ME, "ocr", "", None)
    return running.service.resealer.reseal(ME, "ocr", "", seen.manifest_sha256)


def test_assets_are_shown_with_names_of_their_own(running: Running) -> None:
    detail = running.looking.get(ME, "ocr")
    assert detail.summary.assets == 2
    shown = {asset.uri: {one.name for one in asset.payloads} for asset in detail.assets}
    assert shown == {uri(running): set(VOCABULARY), uri(running, "other.txt"): set(OTHER)}


def test_who_may_list_one_component_is_shown_its_assets_alone(
    running: Running, tmp_path: Path
) -> None:
    expected = uri(running)
    running.close()
    grant = Grant(ME.uid, None, None, ("ocr",), ("det",), frozenset({Right.LIST}))
    with Running(tmp_path, policy=Policy((grant,))) as strict:
        assert [asset.uri for asset in strict.looking.get(ME, "ocr").assets] == [expected]


def test_an_asset_that_nobody_refers_to_is_shown_to_those_who_may_list_all_components(
    running: Running, tmp_path: Path
) -> None:
    package = AssetPackage({PLAIN: VOCABULARY}, {("det", "onnx"): ort(), ("rec", "onnx"): ort()})
    package.import_into(running, "spare")
    assert len(running.looking.get(ME, "spare").assets) == 1
    running.close()
    for parts, count in ((("det",), 0), (("det", "rec"), 1)):
        grant = Grant(ME.uid, None, None, ("spare",), parts, frozenset({Right.LIST}))
        with Running(tmp_path, policy=Policy((grant,))) as strict:
            assert len(strict.looking.get(ME, "spare").assets) == count


def test_a_reference_to_an_asset_is_resolved(running: Running) -> None:
    own = uri(running)
    assert resolved(running, f"{own}/vocab.txt") == [f"{own}/vocab.txt"]
    assert resolved(running, f"{own}/deep") == [f"{own}/deep/er/merges"]
    assert set(resolved(running, own)) == {f"{own}/{name}" for name in VOCABULARY}
    for reference in (uri(running, "other.txt"), UNKNOWN, f"{own}/nothing"):
        with pytest.raises(NotFoundError):
            resolved(running, reference)


def test_a_file_of_an_asset_that_is_gone_or_cut_is_found(running: Running) -> None:
    folder = running.generation() / "shared_assets" / uri(running).replace(":", "-")
    (folder / "vocab.txt").unlink()
    with (folder / "deep/er/merges").open("ab") as file:
        file.write(b"x")
    findings = running.service.validator.validate(ME, "ocr").findings
    place = f"shared_assets/{folder.name}"
    assert {(each.code, each.place) for each in findings} == {
        ("missing", f"{place}/vocab.txt"),
        ("size", f"{place}/deep/er/merges"),
    }


def test_a_check_reads_assets_and_goes_on_among_them(running: Running) -> None:
    told: list[tuple[str, str]] = []
    verified = running.packages.verify(
        ME, "ocr", "", 0, lambda *step: told.append((step[2], step[3]))
    )
    assert verified.payloads == 2 + len(VOCABULARY) + len(OTHER)
    names = list(dict.fromkeys(name for name, _ in told))
    assert names[:2] == ["model.onnx", f"{uri(running)}/vocab.txt"]
    token = next(token for name, token in reversed(told) if name.endswith("/vocab.txt"))
    rest: list[str] = []
    running.packages.verify(ME, "ocr", "", 0, lambda *step: rest.append(step[2]), token)
    assert list(dict.fromkeys(rest)) == names[2:]
    (folder,) = [
        each for each in asset_folders(running.generation()) if each.joinpath("other.txt").exists()
    ]
    flip(folder / "other.txt", 60)
    with pytest.raises(NotAuthenticError):
        running.packages.verify(ME, "ocr", "", 0, lambda *_: None, token)


def test_assets_are_carried_into_a_resealed_generation(running: Running) -> None:
    edit_manifest(running.generation(), lambda manifest: manifest.update(package_name="wanted"))
    assert reseal(running).generation == 2
    own = uri(running)
    before, after = running.generation(), running.generation(number=2)
    file = f"shared_assets/{own.replace(':', '-')}/vocab.txt"
    assert (before / file).samefile(after / file)
    assert running.read(SCOPE, f"{own}/vocab.txt") == VOCABULARY["vocab.txt"]
    assert running.service.validator.validate(ME, "ocr").findings == ()


def test_an_edit_may_refer_to_assets_of_the_package_and_to_no_other(running: Running) -> None:
    def refer(reference: str) -> None:
        def change(manifest: dict[str, object]) -> None:
            body = manifest["components"]["det"]["variants"]["onnx"]  # type: ignore[index]
            body["executor_info"]["ort"]["session_options"] = {WEIGHTS: reference}

        edit_manifest(running.generation(), change)

    refer(UNKNOWN)
    with pytest.raises(InvalidPackageError, match=UNKNOWN):
        reseal(running)
    other = uri(running, "other.txt")
    refer(other)
    reseal(running)
    assert resolved(running, other) == [f"{other}/other.txt"]
    assert len(asset_folders(running.generation(number=2))) == 2
