"""A package in an archive is planned as the same package in a directory, or refused whole."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.onnx_models import inline, located, model, raw
from support.publishing import one_variant, pack, sent, with_asset, write, write_manifest

from sealcar import publish
from sealcar.errors import InvalidPackageError, NotFoundError, SealcarError
from sealcar.publish import archives
from sealcar.publish.files import SourceFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BIG = raw(model(inline("W", range(100_000))))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Write a package that uses every way of saying things in files."""
    root = tmp_path / "package"
    directory = root / "parts" / "det" / "cpu"
    write(directory, {"m.onnx": BIG, "x.onnx": raw(model(located("w.bin"))), "w.bin": bytes(16)})
    uri = with_asset(root, {"vocab.txt": b"a b"})
    info = {"model_file": "m.onnx"}
    write(directory, {"ort.json": json.dumps(info).encode()})
    body = {"executor_info": {"ort": "ort.json", "own": {"vocab": f"{uri}/vocab.txt", "n": 0.1}}}
    component = {"component_name": "det", "variants": {"cpu": body}}
    write(root, {"parts/det/component.json": json.dumps(component).encode()})
    write(root, {"rec/v/m.onnx": BIG})
    rec = {"variants": {"v": {"variant_directory": "rec/v"}}}
    return write_manifest(root, components={"det": "parts/det", "rec": rec}, package_name="ocr")


def refused(source: Path) -> str:
    with pytest.raises(InvalidPackageError) as caught:
        publish.plan(source, name="x")
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("top", ["", ".", "ocr-1.0"])
@pytest.mark.parametrize("how", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_archive_is_planned_as_the_directory_it_was_made_of(
    package: Path, tmp_path: Path, top: str, how: int
) -> None:
    packed = pack(package, tmp_path / "p.tar", top=top, format=how)
    with publish.plan(package) as plan, publish.plan(packed) as same:
        assert (same.name, same.version) == (plan.name, plan.version)
        assert json.loads(same.manifest_json) == json.loads(plan.manifest_json)
        assert sent(same) == sent(plan)


def test_nothing_of_an_archive_is_written_anywhere(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack(package, tmp_path / "p.tar")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    before = sorted(tmp_path.rglob("*"))
    with publish.plan(packed) as plan:
        sent(plan)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_archive_is_told_by_its_content_and_names_the_package(tmp_path: Path) -> None:
    write(tmp_path / "p" / "v", {"m.onnx": BIG})
    write_manifest(tmp_path / "p", components=one_variant())
    packed = pack(tmp_path / "p", tmp_path / "OCR.pkg")
    with publish.plan(packed) as plan:
        assert plan.name == "ocr"


def test_a_compressed_archive_is_refused_with_the_remedy(package: Path, tmp_path: Path) -> None:
    packed = pack(package, tmp_path / "p.tar")
    squeezed = tmp_path / "p.tar.gz"
    squeezed.write_bytes(gzip.compress(packed.read_bytes()))
    assert "without compression" in refused(squeezed)


def member(
    name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(data), link
    return info, data


def extended(package: Path, target: Path, *more: tuple[tarfile.TarInfo, bytes]) -> Path:
    packed = pack(package, target)
    with tarfile.open(packed, "a") as tar:
        for info, data in more:
            tar.addfile(info, io.BytesIO(data))
    return packed


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ([member("../x", data=b"x")], "outside"),
        ([member("/etc/x", data=b"x")], "outside"),
        ([member("rec/../../x", data=b"x")], "outside"),
        ([member("link", tarfile.SYMTYPE, link="/etc/passwd")], "is a link"),
        ([member("rec/v/link", tarfile.SYMTYPE, link="m.onnx")], "is a link"),
        ([member("hard", tarfile.LNKTYPE, link="manifest.json")], "is a link"),
        ([member("pipe", tarfile.FIFOTYPE)], "no plain file"),
        ([member("device", tarfile.CHRTYPE)], "no plain file"),
        ([member("manifest.json", data=b"{}")], "twice"),
        ([member("./rec/v//m.onnx", data=b"x")], "twice"),
        ([member("rec", data=b"x")], "twice"),
        ([member("manifest.json/x", data=b"x")], "twice"),
        ([member("manifest.json", tarfile.DIRTYPE)], "twice"),
        ([member("x" * 5000, data=b"x")], "too long"),
        ([member("rec/v/.hidden", data=b"x")], "dot"),
        ([member("rec/v/M.ONNX", data=BIG)], "only in case"),
    ],
)
def test_an_archive_that_could_mean_two_things_or_lead_out_is_refused(
    package: Path,
    tmp_path: Path,
    more: list[tuple[tarfile.TarInfo, bytes]],
    reason: str,
) -> None:
    assert reason in refused(extended(package, tmp_path / "p.tar", *more))


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_end(data: bytes) -> bytes:
    return data.rstrip(b"\0")


def damaged_header(data: bytes) -> bytes:
    at = data.index(b"rec/v/m.onnx")
    return data[:at] + b"X" + data[at + 1 :]


def huge_member(data: bytes) -> bytes:
    info = tarfile.TarInfo("rec/v/huge")
    info.size = 1 << 40
    return info.tobuf(tarfile.GNU_FORMAT) + data


def huge_header(data: bytes) -> bytes:
    info = tarfile.TarInfo("name")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    return info.tobuf(tarfile.GNU_FORMAT) + data


def many_headers(data: bytes) -> bytes:
    info = tarfile.TarInfo("name")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2
    header = info.tobuf(tarfile.GNU_FORMAT) + b"x\0".ljust(512, b"\0")
    return header * 2000 + data


def negative_size(data: bytes) -> bytes:
    info = tarfile.TarInfo("rec/v/n")
    info.size = -1024
    return info.tobuf(tarfile.GNU_FORMAT) + data


@pytest.mark.parametrize(
    "spoil",
    [cut, without_end, damaged_header, huge_member, huge_header, many_headers, negative_size],
    ids=lambda spoil: spoil.__name__,
)
def test_a_damaged_or_senseless_archive_is_refused_as_a_whole(
    package: Path, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    packed = pack(package, tmp_path / "p.tar", format=tarfile.GNU_FORMAT)
    packed.write_bytes(spoil(packed.read_bytes()))
    refused(packed)


@given(st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_of_a_damaged_archive_nothing_but_our_own_error_comes(
    package: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = bytearray(pack(package, tmp_path / "p.tar").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        # mostly headers, which are small beside the models
        block = data.draw(st.integers(0, len(whole) // 512 - 1))
        whole[block * 512 + data.draw(st.integers(0, 511))] = data.draw(st.integers(0, 255))
    spoiled = tmp_path / "spoiled.tar"
    spoiled.write_bytes(whole)
    try:
        with publish.plan(spoiled, name="x") as plan:
            sent(plan)
    except SealcarError as error:
        assert str(error).isprintable()  # noqa: PT017  (either outcome is right)


def test_too_many_members_are_refused(package: Path, tmp_path: Path) -> None:
    packed = pack(package, tmp_path / "p.tar")
    with packed.open("rb") as stream:
        file = SourceFile(os.dup(stream.fileno()), "p.tar")
    count = len(list(package.rglob("*"))) + 1
    archives.Archive(file, most=count)
    with pytest.raises(InvalidPackageError, match="members"):
        archives.Archive(file, most=count - 1)
    file.close()


def test_a_sparse_member_is_refused(package: Path, tmp_path: Path) -> None:
    info = tarfile.TarInfo("rec/v/sparse")
    info.type = tarfile.GNUTYPE_SPARSE
    assert "no plain file" in refused(extended(package, tmp_path / "p.tar", (info, b"")))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"components": {"c": "gone"}}, "'gone' does not exist"),
        ({"components": {"c": "/etc"}}, "must be relative"),
        ({"components": {"c": "../x"}}, "must not hold '..'"),
        ({"components": one_variant(variant_directory="gone")}, "'gone' does not exist"),
        ({"components": one_variant(variant_directory="/etc")}, "must be relative"),
        ({"components": one_variant(variant_directory=5)}, "must be text"),
        ({"components": one_variant(executor_info={"ort": "gone.json"})}, "does not exist"),
        ({"components": one_variant(executor_info={"ort": "../x"})}, "must not hold '..'"),
        ({"components": one_variant(executor_info={"ort": 5})}, "executor_info"),
        ({"components": one_variant(ep=5)}, "must be text"),
        ({"components": {"c": {"variants": []}}}, "must be an object"),
        ({"components": {"c": 5}}, "must be a path or an object"),
        ({"components": []}, "must be an object"),
        ({"components": {"c": {"variants": {"../v": {}}}}}, "must not hold '..'"),
        ({"components": {"c": {"variants": {"gone": {}}}}}, "no directory"),
        ({"layout": "installed"}, "portable"),
        ({"schema_version": "1.1"}, "newer minor"),
        ({"shared_assets": {"sha256:" + "0" * 64: "a"}}, "no directory of the archive"),
        ({"shared_assets": {"sha256:" + "0" * 64: "../a"}}, "out of the package"),
        ({"unknown": 1}, "unknown field"),
    ],
)
def test_a_manifest_in_an_archive_obeys_the_rules_of_packages(
    tmp_path: Path, members: dict[str, object], reason: str
) -> None:
    root = tmp_path / "p"
    write(root / "v", {"m.onnx": BIG})
    write_manifest(root, **{"components": one_variant()} | members)
    assert reason in refused(pack(root, tmp_path / "p.tar"))


def test_an_archive_without_a_manifest_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "p", {"a/m.onnx": BIG, "b/m.onnx": BIG})
    assert "no manifest.json" in refused(pack(root, tmp_path / "p.tar"))


def test_an_archive_that_changes_while_it_is_read_is_refused(package: Path, tmp_path: Path) -> None:
    packed = pack(package, tmp_path / "p.tar")
    with publish.plan(packed) as plan:
        with packed.open("r+b") as stream:
            stream.write(b"x")
        os.utime(packed, ns=(0, 0))
        with pytest.raises(InvalidPackageError, match="changed"):
            sent(plan)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.tar")
    assert "not a regular file" in refused(tmp_path / "p.tar")
    with pytest.raises(NotFoundError):
        publish.plan(tmp_path / "gone.tar")


@pytest.mark.parametrize("name", [".hidden", "a\\b.tar", "cafe\u0301.tar", "\udcff.tar"])
def test_the_name_of_an_archive_goes_nowhere_so_it_may_be_any(
    package: Path, tmp_path: Path, name: str
) -> None:
    packed = pack(package, tmp_path / "p.tar").rename(tmp_path / name)
    with publish.plan(packed) as plan:
        assert plan.name == "ocr"
    assert publish.sealed_plan(packed) is None
    # that of a model is a payload's
    model = tmp_path / name.replace(".tar", ".onnx")
    model.write_bytes(BIG)
    assert "payload name" in refused(model)
