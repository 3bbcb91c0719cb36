"""A sealed export is known by its record; only files that the record names are sent."""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from sealcar.errors import InvalidPackageError, NotFoundError
from sealcar.publish import sealed_plan
from sealcar.publish.manifests import MAX_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

URI = f"sha256:{'a' * 64}"


def payload(name: str) -> dict[str, Any]:
    return {"name": name, "kind": "model", "sealed": True, "size": 3}


def record(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
    variant = {"component": "c", "variant": "v", "payloads": [payload("deep/x")]}
    asset = {"uri": URI, "payloads": [payload("y")]}
    return {"name": "ocr", "version": "2", "variants": [variant], "assets": [asset], **changes}


def manifest(found: object) -> str:
    text = base64.urlsafe_b64encode(json.dumps(found).encode()).rstrip(b"=").decode()
    return json.dumps({"additional_metadata": {"sealcar": {"format": "1", "record": text}}})


def export(folder: Path, found: object = None) -> Path:
    """Write an export whose files hold their own names."""
    out = folder / "out"
    for path in ("c/v/deep/x", f"shared_assets/{URI.replace(':', '-')}/y"):
        (out / path).parent.mkdir(parents=True)
        (out / path).write_text(path)
    (out / "manifest.json").write_text(manifest(record() if found is None else found))
    return out


def archived(out: Path, top: str = "") -> Path:
    archive = out.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        tar.add(out, arcname=top)
    return archive


@pytest.mark.parametrize("form", ["directory", "tar", "tar of a directory"])
def test_an_export_is_planned_by_its_record(tmp_path: Path, form: str) -> None:
    out = export(tmp_path)
    (out / "c/v/more").write_text("not in the record")
    if form != "directory":
        out = archived(out, "out" if form == "tar of a directory" else ".")
    plan = sealed_plan(out)
    assert plan is not None
    with plan:
        assert (plan.name, plan.version) == ("ocr", "2")
        assert plan.manifest_json == manifest(record())
        found = [
            (one.component, one.variant, one.asset, one.name, b"".join(one.chunks()))
            for one in plan.payloads
        ]
    assert found == [
        ("c", "v", "", "deep/x", b"c/v/deep/x"),
        ("", "", URI, "y", f"shared_assets/{URI.replace(':', '-')}/y".encode()),
    ]


def test_what_holds_no_record_is_no_sealed_export(tmp_path: Path) -> None:
    out = export(tmp_path)
    for text in ("", "{", "[]", "{}", '{"additional_metadata": 1}', "\udc80", "[" * 100_000):
        (out / "manifest.json").write_bytes(text.encode(errors="surrogatepass"))
        assert sealed_plan(out) is None
    (out / "manifest.json").rename(tmp_path / "elsewhere")
    assert sealed_plan(out) is None
    # others may allow it to be a link, or say why not
    (out / "manifest.json").symlink_to(tmp_path / "elsewhere")
    assert sealed_plan(out) is None
    (out / "manifest.json").unlink()
    (out / "manifest.json").mkdir()
    assert sealed_plan(out) is None
    (out / "manifest.json").rmdir()
    assert sealed_plan(archived(out)) is None
    model = tmp_path / "model.onnx"
    model.write_bytes(b"model" * 1000)
    assert sealed_plan(model) is None
    with pytest.raises(NotFoundError):
        sealed_plan(tmp_path / "nothing")


def variants(name: str, component: str = "c", variant: str = "v") -> dict[str, Any]:
    one = {"component": component, "variant": variant, "payloads": [payload(name)]}
    return record(variants=[one], assets=[])


HOSTILE = {
    "a path that leads out": variants("../../secret"),
    "an absolute path": variants("/etc/passwd"),
    "a component that leads out": variants("x", component=".."),
    "a component that is a path": variants("x", component="c/v", variant="deep"),
    "a variant that is a path": variants("x", variant="v/deep"),
    "a variant that is an asset": variants("y", "shared_assets", URI.replace(":", "-")),
    "a file that is missing": variants("none"),
    "an asset that is no URI": record(assets=[{"uri": "../v", "payloads": [payload("x")]}]),
    "an asset in upper case": record(assets=[{"uri": URI.upper(), "payloads": [payload("y")]}]),
    "no object": [],
    "no variants": record(variants=None),
    "variants that are none": record(variants=[1]),
    "a name that is no text": record(name=1),
    "payloads that are none": record(variants=[{"component": "c", "variant": "v", "payloads": 1}]),
}


@pytest.mark.parametrize("found", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("tar", [False, True], ids=["directory", "tar"])
def test_a_record_that_names_what_isnt_in_the_export_is_refused(
    tmp_path: Path, found: object, *, tar: bool
) -> None:
    (tmp_path / "secret").write_text("secret")
    out = export(tmp_path, found)
    with pytest.raises(InvalidPackageError):
        sealed_plan(archived(out) if tar else out)


@pytest.mark.parametrize("broken", ["%", "e30", "", "W10", None, 5])
def test_a_record_that_cant_be_read_is_refused(tmp_path: Path, broken: object) -> None:
    out = export(tmp_path)
    sealed = {"additional_metadata": {"sealcar": {"record": broken}}}
    (out / "manifest.json").write_text(json.dumps(sealed))
    with pytest.raises(InvalidPackageError):
        sealed_plan(out)


def test_links_and_pipes_are_never_followed(tmp_path: Path) -> None:
    out = export(tmp_path)
    place = out / "c/v/deep/x"
    place.unlink()
    place.symlink_to("/etc/hostname")
    with pytest.raises(InvalidPackageError, match="link"):
        sealed_plan(out)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(InvalidPackageError, match="regular file"):
        sealed_plan(out)


def test_a_link_in_a_tar_refuses_it_whole(tmp_path: Path) -> None:
    out = export(tmp_path)
    archive = archived(out)
    with tarfile.open(archive, "a") as tar:
        entry = tarfile.TarInfo("c/v/link")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(entry, io.BytesIO())
    with pytest.raises(InvalidPackageError, match="link"):
        sealed_plan(archive)


def test_a_manifest_that_no_message_holds_is_refused_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    out = export(tmp_path)
    value = json.loads((out / "manifest.json").read_text())
    value["description"] = "x" * MAX_MANIFEST
    (out / "manifest.json").write_text(json.dumps(value))
    with pytest.raises(InvalidPackageError, match="too many"):
        sealed_plan(out)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-32"),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode()[:-1] + b', "more": "\xed\xa0\x80"}',
    ],
    ids=["utf-16", "utf-32", "byte order mark", "encoded surrogate"],
)
def test_a_manifest_in_another_encoding_is_none_that_a_daemon_sealed(
    tmp_path: Path, change: Callable[[str], bytes]
) -> None:
    out = export(tmp_path)
    (out / "manifest.json").write_bytes(change(manifest(record())))
    assert sealed_plan(out) is None


@pytest.mark.parametrize("field", ["name", "version"])
@pytest.mark.parametrize("text", ["\ud800", "[/b]", "\x1b[31m", "../x", ""])
def test_a_record_of_a_name_that_no_package_has_is_refused(
    tmp_path: Path, field: str, text: str
) -> None:
    with pytest.raises(InvalidPackageError, match="seal record"):
        sealed_plan(export(tmp_path, record(**{field: text})))


def test_a_path_that_nothing_can_have_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        sealed_plan(tmp_path / ("x" * 300))
