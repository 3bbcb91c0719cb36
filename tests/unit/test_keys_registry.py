from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sealcar.errors import ConfigurationError, RuntimeSupportError
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.registry import open_provider, schemes
from sealcar_server.keys.source import KeySource, parse

_PLUGIN = """
class Provider:
    kind = "lab"
    def __init__(self, source):
        self.source = source

def make(source):
    if source.uri.address == "broken":
        raise ZeroDivisionError("with the secret in its text")
    return Provider(source)
"""

_WITHOUT = """
import sys
from pathlib import Path
from sealcar.errors import SealcarError
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.source import KeySource, parse

sys.modules[sys.argv[1]] = None
try:
    open_provider(KeySource(parse(sys.argv[2], Path("/"))))
except SealcarError as error:
    print(type(error).__name__, error.exit_code, error)
"""


def source(uri: str) -> KeySource:
    return KeySource(parse(uri, Path("/")))


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "labkeys.py").write_text(_PLUGIN)
    metadata = tmp_path / "labkeys-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: labkeys\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[sealcar.key_providers]\nlab = labkeys:make\nfile = labkeys:make\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "labkeys", raising=False)


@pytest.mark.usefixtures("plugin")
def test_whatever_is_installed_can_add_a_provider() -> None:
    assert "lab" in schemes()
    made = open_provider(source("lab:a/b?slot=7"))
    assert made.kind == "lab"
    assert made.source.uri.parameters == {"slot": "7"}  # type: ignore[attr-defined]  # the plug-in's own


@pytest.mark.usefixtures("plugin")
def test_a_plug_in_never_replaces_a_provider_of_ours(tmp_path: Path) -> None:
    FileProvider.create(tmp_path / "kek").close()
    made = open_provider(source(f"file:{tmp_path / 'kek'}"))
    assert type(made) is FileProvider
    made.close()


@pytest.mark.usefixtures("plugin")
def test_a_plug_in_that_fails_is_named_and_its_text_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match=r"labkeys:make.*ZeroDivisionError") as caught:
        open_provider(source("lab:broken"))
    assert "secret" not in str(caught.value)


def test_an_unknown_scheme_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="there are: aws-kms, credential, file, pkcs11"):
        open_provider(source("gcp:key"))


@pytest.mark.parametrize(
    ("uri", "needed", "extra"),
    [
        ("pkcs11:token=a;object=b?module-path=/c", "pkcs11", "pkcs11"),
        ("aws-kms:alias/a?region=eu-central-1", "boto3", "aws"),
        ("vault:https://a/transit/b", "hvac", "vault"),
    ],
)
def test_what_is_not_installed_is_said_with_the_remedy(uri: str, needed: str, extra: str) -> None:
    # a process of its own: here the libraries may be loaded already
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, needed, uri], capture_output=True, text=True, check=True
    )
    kind, code, message = done.stdout.split(" ", 2)
    assert (kind, code) == (RuntimeSupportError.__name__, "3")
    assert f"remedy: pip install 'sealcar[{extra}]'" in message
    assert f"need {needed}" in message


def test_no_optional_library_is_loaded_before_a_key_needs_it() -> None:
    program = "import sys, sealcar_server.app; print([m for m in %r if m in sys.modules])"
    names = ("pkcs11", "boto3", "botocore", "hvac", "requests")
    found = subprocess.run(
        [sys.executable, "-c", program % (names,)], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"
