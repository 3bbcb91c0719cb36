"""Plain packages as a source of payloads: which variant, where its references lead, and reading."""

from __future__ import annotations

import ctypes
import json
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import plain_packages

from sealcar.errors import (
    InvalidPackageError,
    InvalidRequestError,
    NotFoundError,
    RequestError,
)
from sealcar.ort import plain, runtime, selecting, sources
from sealcar.ort.plain.files import FileReader
from sealcar.ort.scopes import model_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET = b"secret"


def opened(
    root: Path, component: str | None = None, variant: str | None = None
) -> plain.DirectoryScope:
    package = plain.open_package(root)
    return plain.DirectoryScope(package, *plain.find_variant(package, component, variant))


def manifest(root: Path, **fields: object) -> Path:
    """Write a package of nothing but a manifest."""
    root.mkdir(exist_ok=True)
    (root / "manifest.json").write_text(json.dumps({"schema_version": "1.0", **fields}))
    return root


@pytest.mark.parametrize("path", ["nothing", "file", "\0", "file/x"])
def test_what_is_no_directory_is_no_package(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotFoundError, match="manifest"):
        plain.open_package(tmp_path / path)


def test_what_breaks_a_rule_of_the_format_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InvalidPackageError, match="components"):
        plain.open_package(manifest(tmp_path / "a"))
    missing = {"c": {"variants": {"v": {"variant_directory": "nothing"}}}}
    with pytest.raises(NotFoundError, match="nothing"):
        plain.open_package(manifest(tmp_path / "b", components=missing))
    leaving = {"c": {"variants": {"v": {"variant_directory": ".."}}}}
    with pytest.raises(InvalidPackageError, match="must not hold"):
        plain.open_package(manifest(tmp_path / "c", components=leaving))


def test_a_sealed_package_is_refused_with_the_remedy(tmp_path: Path) -> None:
    sealed = {"sealcar": {"format": "1", "record": "", "tag": ""}}
    root = manifest(tmp_path / "a", components={}, additional_metadata=sealed)
    with pytest.raises(InvalidRequestError, match=r"ciphertext.*through a client"):
        plain.open_package(root)
    # a variant says so itself, whoever wrote the manifest anew
    variants = {"v": {"executor_info": {"sealcar": {"format": "1"}}}, "w": {}}
    package = plain.open_package(manifest(root, components={"c": {"variants": variants}}))
    with pytest.raises(InvalidRequestError, match=r"ciphertext.*through a client"):
        plain.find_variant(package, "c", "v")
    assert plain.find_variant(package, "c", "w")[1].name == "w"


def test_a_variant_need_not_be_named_where_there_is_one(tmp_path: Path) -> None:
    one: dict[str, object] = {}
    components = {"a": {"variants": {"x": one, "y": one}}, "b": {"variants": {"x": one}}}
    package = plain.open_package(manifest(tmp_path / "p", components=components))
    for names, want in ((("b", None), ("b", "x")), ((None, "y"), ("a", "y"))):
        component, variant = plain.find_variant(package, *names)
        assert (component, variant.name) == want
    with pytest.raises(InvalidRequestError, match="a/x, b/x"):
        plain.find_variant(package, None, "x")
    with pytest.raises(InvalidRequestError, match="3 variants match"):
        plain.find_variant(package, None, None)
    with pytest.raises(NotFoundError, match=r"'c'/'\*'"):
        plain.find_variant(package, "c", None)


ASSETS: Mapping[str, Mapping[str, bytes]] = {"shared": {"m": b"asset", "sub/m": b"deeper"}}


def world(root: Path, ort: Mapping[str, object]) -> plain.DirectoryScope:
    """Return a variant with all that a reference can lead to, and a secret beside the package."""
    root.mkdir()
    (root / "secret").write_bytes(SECRET)
    files = {"m": b"own", "sub/m": b"sub", "sub/n": b"sub"}
    path = plain_packages.written(root / "p", files, ort, assets=ASSETS)
    plain_packages.write(path / "other" / "m", b"other")
    variant = path / plain_packages.VARIANT
    os.mkfifo(variant / "fifo")
    for name, target in {
        "link": "m",
        "beyond": "../other/m",
        "out": "../../secret",
        "dangling": "nothing",
    }.items():
        (variant / name).symlink_to(target)
    return opened(path)


@pytest.mark.parametrize(
    ("reference", "content"),
    [
        ("m", b"own"),
        ("./m", b"own"),
        ("sub/m", b"sub"),
        ("link", b"own"),
        # the package's own rule: links may lead anywhere in it
        ("beyond", b"other"),
        ("asset:shared/m", b"asset"),
        ("asset:shared/sub/m", b"deeper"),
    ],
)
def test_a_reference_leads_where_the_format_says(
    reference: str, content: bytes, tmp_path: Path
) -> None:
    with closing(world(tmp_path / "w", {"model_file": reference})) as scope:
        info = scope.executor_info["ort"]
        assert isinstance(info, dict)
        assert scope.read(scope.resolve(info["model_file"], sources.MODEL)) == content


@pytest.mark.parametrize(
    "reference",
    [
        *("", "/etc/passwd", "../other/m", "sub/../m", "out", "fifo", "sub", ".", "x", "dangling"),
        *("m/", "m\0", "asset:shared", "asset:shared/../m", "asset:shared/x", "sha256:" + "0" * 64),
    ],
)
def test_a_reference_that_leads_elsewhere_or_nowhere_is_refused(
    reference: str, tmp_path: Path
) -> None:
    with closing(world(tmp_path / "w", {"model_file": reference})) as scope:
        info = scope.executor_info["ort"]
        assert isinstance(info, dict)
        with pytest.raises(RequestError):
            scope.resolve(info["model_file"], sources.MODEL)


def test_an_installed_package_may_lead_anywhere_but_its_models_may_not(tmp_path: Path) -> None:
    world(tmp_path / "w", {}).close()
    path = tmp_path / "w" / "p" / "manifest.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({**written, "layout": "installed"}))
    with closing(opened(path.parent)) as scope:
        secret = str(tmp_path / "w" / "secret")
        assert scope.read(scope.resolve(secret, sources.MODEL)) == SECRET
        assert scope.read(scope.resolve("../other/m", sources.MODEL)) == b"other"
        for name in (secret, "../../secret", "out"):
            with pytest.raises(InvalidPackageError):
                scope.beside("", name, sources.BLOB)


def test_names_in_a_model_stay_in_the_models_own_folder(tmp_path: Path) -> None:
    with closing(world(tmp_path / "w", {"a": "asset:shared", "b": "asset:shared/sub"})) as scope:
        info = scope.executor_info["ort"]
        assert isinstance(info, dict)
        for folder, inside, outside in (
            ("", "sub/m", "beyond"),
            ("sub", "m", "../m"),
            (info["a"], "sub/m", "../../v/m"),
            (info["b"], "m", "../m"),
        ):
            found = scope.resolve_folder(folder)
            assert scope.read(scope.beside(found, inside, sources.INITIALIZERS))
            with pytest.raises(InvalidPackageError, match="leads out"):
                scope.beside(found, outside, sources.INITIALIZERS)


def test_a_folder_must_be_one(tmp_path: Path) -> None:
    with closing(world(tmp_path / "w", {})) as scope:
        for reference in ("x", "m", "fifo", "..", "sha256:" + "0" * 64):
            with pytest.raises(RequestError):
                scope.resolve_folder(reference)


def test_what_was_found_is_read_though_its_name_means_another_file_by_now(tmp_path: Path) -> None:
    with closing(world(tmp_path / "w", {})) as scope:
        found = scope.beside("", "m", sources.BLOB)
        variant = tmp_path / "w" / "p" / plain_packages.VARIANT
        (variant / "m").unlink()
        (variant / "m").symlink_to("../../secret")
        # the folder itself, too, is the one that was opened
        variant.rename(variant.with_name("moved"))
        assert scope.read(found) == b"own"
        assert bytes(scope.view(found)) == b"own"
        assert scope.read(scope.beside("", "sub/n", sources.BLOB)) == b"sub"


def test_names_that_nobody_checked_do_not_steer_the_terminal(tmp_path: Path) -> None:
    files = {"variant_directory": ".", "executor_info": {"ort": {"model_file": "x\x1b[2J"}}}
    components = {"c\x1b[2J": {"variants": {"v\n": files}}}
    with closing(opened(manifest(tmp_path / "p", components=components))) as scope:
        with pytest.raises(InvalidPackageError) as caught:
            model_of(scope)
        assert str(caught.value).isprintable()
        placed = scope.name.placed(NotFoundError("none"), "read", "b\x1b[2J")
        assert str(placed).isprintable()


def test_nor_do_those_of_variants_that_have_to_be_chosen_from(tmp_path: Path) -> None:
    variants: dict[str, object] = {"v\n": {}, "w\x1b[2J": {}}
    components = {"c\x1b[2J": {"variants": variants}, "d\n": {"variants": variants}}
    package = plain.open_package(manifest(tmp_path / "p", components=components))
    for component in (None, "d\n"):
        with pytest.raises(InvalidRequestError) as caught:
            plain.find_variant(package, component, None)
        assert str(caught.value).isprintable()
        with pytest.raises(InvalidRequestError) as caught:
            selecting.in_package(package, component, runtime.onnxruntime().SessionOptions())
        assert str(caught.value).isprintable()


def test_a_package_may_be_named_by_a_relative_path_or_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(tmp_path / "w", {"model_file": "m"}).close()
    monkeypatch.chdir(tmp_path / "w")
    (tmp_path / "w" / "link").symlink_to("p")
    for path in (Path("p"), Path("link"), tmp_path / "w" / "link"):
        with closing(opened(path)) as scope, monkeypatch.context() as elsewhere:
            # from then on no relative path counts
            elsewhere.chdir("/")
            assert scope.read(scope.beside("", "link", sources.BLOB)) == b"own"


def test_what_was_not_found_before_is_not_read(tmp_path: Path) -> None:
    with (
        closing(world(tmp_path / "w", {})) as scope,
        pytest.raises(NotFoundError, match=r"read: .*/main/v/m: "),
    ):
        scope.read("m")


def test_a_file_that_changes_while_it_is_read_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for change in (b"longer than before", b"x"):
        path.write_bytes(b"before")
        with path.open("rb") as file:
            reader = FileReader(file.fileno())
            target = ctypes.create_string_buffer(b"......", 6)
            path.write_bytes(change)
            with pytest.raises(InvalidPackageError, match="changed"):
                reader.read_into(ctypes.addressof(target), 6)
            assert target.raw == bytes(6)


def test_a_target_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"1234")
    with (tmp_path / "f").open("rb") as file, FileReader(file.fileno()) as reader:
        target = ctypes.create_string_buffer(8)
        with pytest.raises(InvalidRequestError, match="4 bytes"):
            reader.read_into(ctypes.addressof(target), 8)


def test_a_large_file_arrives_whole(tmp_path: Path) -> None:
    data = os.urandom((3 << 20) + 17)
    (tmp_path / "f").write_bytes(data)
    with (tmp_path / "f").open("rb") as file:
        reader = FileReader(file.fileno())
        assert reader.read() == data
        view = reader.view()
        assert view == data
        assert view.readonly
