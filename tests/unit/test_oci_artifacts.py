"""How artifacts are named and written, and what a command says that can't reach any."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.daemon import environment

from sealcar import errors, oci
from sealcar.cli import main
from sealcar.oci import Access, Reference, artifacts
from sealcar.oci.artifacts import Artifact, Blob

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("text", "host", "repository", "manifest"),
    [
        ("registry.example/ocr", "registry.example", "ocr", "latest"),
        ("registry.example/a/b-c/d__e:1.2_X", "registry.example", "a/b-c/d__e", "1.2_X"),
        ("localhost:5000/ocr:1", "localhost:5000", "ocr", "1"),
        ("127.0.0.1:5000/ocr:1", "127.0.0.1:5000", "ocr", "1"),
        ("[::1]:5000/ocr:1", "[::1]:5000", "ocr", "1"),
        (f"registry.example/ocr@{DIGEST}", "registry.example", "ocr", DIGEST),
        (f"registry.example/ocr:1@{DIGEST}", "registry.example", "ocr", DIGEST),
        ("docker.io/ocr:1", "registry-1.docker.io", "library/ocr", "1"),
        ("docker.io/me/ocr:1", "registry-1.docker.io", "me/ocr", "1"),
    ],
)
def test_a_reference_names_registry_repository_and_manifest(
    text: str, host: str, repository: str, manifest: str
) -> None:
    found = Reference.parse(text)
    assert (found.host, found.repository, found.manifest) == (host, repository, manifest)
    assert Reference.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ocr",
        "ocr:1",
        "models/ocr:1",
        "localhost/ocr:1",
        "registry.example/",
        "registry.example/:1",
        "registry.example/ocr:",
        "registry.example/ocr@",
        "registry.example/ocr@sha256:12",
        f"registry.example/ocr@SHA256:{'0' * 64}",
        "registry.example/../x:1",
        "registry.example/a//b:1",
        "registry.example/OCR:1",
        "registry.example/ocr:1:2",
        "registry.example/ocr:-1",
        "registry.example/ocr:" + "x" * 129,
        "registry.example/" + "x" * 300,
        "https://registry.example/ocr:1",
        "user:word@registry.example/ocr:1",
        "registry.example:port/ocr:1",
        "registry.example\n/ocr:1",
        "registry.example/ocr:1\n",
        "r\u00e9gistry.example/ocr:1",
        "registry..example/ocr",
    ],
    ids=ascii,
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidNameError):
        Reference.parse(text)


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    try:
        found = Reference.parse(text)
    except errors.InvalidNameError:
        return
    assert Reference.parse(str(found)) == found


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["artifactType", "config", "layers", "mediaType", "size"]), inner
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_an_artifact_or_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidPackageError):
        artifacts.read(data)


def test_what_is_written_is_read_and_the_same_each_time() -> None:
    artifact = Artifact(
        Blob(DIGEST, 7), {"c/v/a": Blob(DIGEST, 0), "c/v/\u00e9": Blob(DIGEST, 9)}, {}
    )
    data = artifact.written()
    assert artifacts.read(data) == artifact
    assert artifact.size == 16
    # tools that take it apart and write it again leave its digest as it is
    assert json.dumps(json.loads(data)).encode() == data


def test_a_package_of_too_many_files_is_told_to_go_as_a_tar() -> None:
    layers = {f"c/v/{at:0200}": Blob(DIGEST, 1) for at in range(20_000)}
    with pytest.raises(errors.InvalidPackageError, match="--tar"):
        Artifact(Blob(DIGEST, 1), layers, {}).written()


def test_annotations_say_what_the_manifest_tells_everybody() -> None:
    variants = {"a": {"ep": "QNNExecutionProvider"}, "b": {"ep": "CPUExecutionProvider"}, "c": {}}
    manifest = json.dumps({"components": {"det": {"variants": variants}}}).encode()
    found = artifacts.described(manifest, "ocr", "1.2", 3)
    assert found == {
        "org.opencontainers.image.title": "ocr",
        "org.opencontainers.image.version": "1.2",
        "sealcar.generation": "3",
        "sealcar.ep": "CPUExecutionProvider,QNNExecutionProvider",
    }
    for other in (
        b"",
        b"{}",
        b'{"components": 1}',
        b'{"components": {"x": {"variants": {"y": 1}}}}',
    ):
        assert artifacts.described(other, "ocr", "1", 1).keys() == found.keys() - {"sealcar.ep"}


def test_a_password_is_in_no_text_of_its_holder() -> None:
    assert "secret" not in repr(Access(username="me", password="secret"))  # noqa: S106


def run(*arguments: str) -> int:
    return main.run(["push", "ocr", "registry.example/ocr:1", *arguments])


def test_a_user_and_his_password_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, empty = tmp_path / "password", tmp_path / "empty"
    file.write_text("secret\n")
    empty.write_text("\n")
    socket = f"--socket={tmp_path}"
    for options in (
        ["--username=me"],
        ["--password-stdin"],
        [f"--password-file={file}"],
        ["--username=me", "--password-stdin", f"--password-file={file}"],
        ["--username=me", f"--password-file={empty}"],
        ["--username=a:b", f"--password-file={file}"],
    ):
        assert run(*options, socket) == 2, options
    assert run("--username=me", f"--password-file={tmp_path / 'none'}", socket) == 8
    assert "secret" not in "".join(capsys.readouterr())


def test_files_that_are_none_are_settings_that_are_wrong(tmp_path: Path) -> None:
    from sealcar.oci.repository import Repository  # noqa: PLC0415  (an extra)

    text = tmp_path / "text"
    text.write_text("no certificate, and no JSON")
    place = Reference.parse("registry.example/ocr:1")
    for access in (
        Access(ca=tmp_path / "none"),
        Access(ca=text),
        Access(config=tmp_path / "none"),
        Access(config=text),
        Access(config=tmp_path),
    ):
        with pytest.raises(errors.ConfigurationError):
            Repository(place, access)


@pytest.mark.parametrize("kept", [{"auth": 7}, {"auth": "a\nb"}, {"auth": ["x"]}, 7], ids=repr)
def test_credentials_that_are_none_are_refused(tmp_path: Path, kept: object) -> None:
    from sealcar.oci.repository import Repository  # noqa: PLC0415  (an extra)

    file = tmp_path / "config.json"
    file.write_text(json.dumps({"auths": {"registry.example": kept}}))
    with pytest.raises(errors.ConfigurationError):
        Repository(Reference.parse("registry.example/ocr:1"), Access(config=file))


def test_what_is_pushed_needs_a_tag() -> None:
    for text in ("registry.example/ocr", f"registry.example/ocr:1@{DIGEST}"):
        with pytest.raises(errors.InvalidNameError, match="tag"):
            oci.push(None, oci.Wanted("ocr"), Reference.parse(text))  # type: ignore[arg-type]  # not asked yet


def test_without_oras_the_error_names_the_extra() -> None:
    code = (
        "import sys\n"
        "for name in ('oras', 'requests', 'urllib3'): sys.modules[name] = None\n"
        "from sealcar.cli import main\n"
        "sys.exit(main.run(['pull', 'registry.example/ocr:1', '--json', '--socket', '/']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = json.loads(done.stdout)["error"]
    assert (done.returncode, said["kind"]) == (3, "RuntimeSupportError")
    assert "sealcar[oci]" in said["message"]
