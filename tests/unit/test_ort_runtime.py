"""The event database is off before the runtime is loaded, and what a status may say."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from sealcar.errors import NotFoundError, Place, RuntimeSupportError
from sealcar.ort import abi, runtime
from sealcar.ort.adapters import choose, rejections
from sealcar.ort.callbacks import STATUS_BYTES, Registration, blob, registered, status_text

if TYPE_CHECKING:
    from pathlib import Path

SWITCH: Final = "ORT_DISABLE_TELEMETRY"


def python(home: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process whose cache folder is below home."""
    plain = {name: value for name, value in os.environ.items() if name != SWITCH}
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", script],
        env={**plain, "HOME": str(home), "XDG_CACHE_HOME": str(home), **environment},
        check=True,
        capture_output=True,
        text=True,
    )


def test_no_event_database_is_made_when_sealcar_is_first(tmp_path: Path) -> None:
    done = python(tmp_path, "import sealcar.ort; sealcar.ort.callback_api()")
    assert done.stderr == ""
    assert list(tmp_path.rglob("*")) == []


def test_importing_sealcar_ort_loads_no_runtime(tmp_path: Path) -> None:
    python(tmp_path, "import sys, sealcar.ort; assert 'onnxruntime' not in sys.modules")


def test_it_says_so_when_the_switch_comes_too_late(tmp_path: Path) -> None:
    done = python(tmp_path, "import onnxruntime, sealcar.ort")
    late = runtime.version() >= (1, 29)
    assert ("EventDatabaseWarning" in done.stderr) == late


@pytest.mark.parametrize("value", ["1", "true"])
def test_it_says_nothing_when_it_was_off_already(tmp_path: Path, value: str) -> None:
    assert python(tmp_path, "import onnxruntime, sealcar.ort", **{SWITCH: value}).stderr == ""


@pytest.mark.parametrize("missing", ["onnxruntime", "numpy"])
def test_a_missing_part_is_named_with_the_remedy(tmp_path: Path, missing: str) -> None:
    script = f"""
import sys
sys.modules["{missing}"] = None
import sealcar.ort
from sealcar.errors import RuntimeSupportError
try:
    sealcar.ort.callback_api()
except RuntimeSupportError as error:
    print(error)
"""
    said = python(tmp_path, script).stdout
    assert missing in said.lower().replace(" ", "")
    assert "install sealcar[ort]" in said


@pytest.mark.parametrize(
    ("version", "native_part", "way"),
    [
        ((1, 28), True, "experimental"),
        ((1, 30), True, "experimental"),
        ((1, 31), True, "stable"),
        ((1, 30), False, "none"),
        ((1, 32), False, "bindings"),
    ],
)
def test_the_interface_follows_from_the_version_and_the_build(
    version: tuple[int, int], native_part: object, way: str
) -> None:
    assert choose(version, native_part=bool(native_part)) == way


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.32.0", (1, 32)), ("1.33.0.dev20261101", (1, 33)), ("2.0", (2, 0)), ("", (0, 0))],
)
def test_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert runtime.parse(text) == version


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotFoundError("gone", place=Place("open", "ocr")), "NotFoundError: open: ocr: gone"),
        (KeyError("secret"), "KeyError in the callback for blob 'a.bin'"),
        (NotFoundError("a\nb\0c\x1b[1m"), "NotFoundError: a?b?c?[1m"),
        (NotFoundError("\udcff"), "NotFoundError: ?"),
    ],
)
def test_a_status_tells_our_errors_and_only_the_class_of_others(
    error: BaseException, text: str
) -> None:
    assert status_text(error, blob("a.bin")) == text


@pytest.mark.parametrize("letter", ["x", "é", "語", "🔑"])
def test_a_status_is_cut_between_characters(letter: str) -> None:
    text = status_text(NotFoundError(letter * 1000), "")
    assert STATUS_BYTES - 4 < len(text.encode()) <= STATUS_BYTES
    assert text.endswith(letter)


def test_a_registration_is_found_by_its_number_until_it_ends() -> None:
    registration = Registration()
    other = Registration()
    assert registered(registration.state) is registration
    assert registration.state != other.state
    registration.close()
    for state in (registration.state, 0, None, 1 << 40):
        with pytest.raises(RuntimeSupportError, match="has ended"):
            registered(state)
    assert registered(other.state) is other


def test_a_registration_nobody_keeps_is_never_served() -> None:
    state = Registration().state
    with pytest.raises(RuntimeSupportError, match="has ended"):
        registered(state)


def test_a_rejection_is_explained_with_the_providers_name() -> None:
    error: Any = RuntimeError(
        "[ONNXRuntimeError] : 1 : FAIL : CheckEpContextDataSupport EP 'qnn' does not support the "
        "registered EPContext data write callback."
    )
    found = rejections.explain(error)
    assert isinstance(found, RuntimeSupportError)
    assert "'qnn' doesn't honour the write callback" in str(found)
    assert rejections.explain(RuntimeError("out of memory")) is None
    assert rejections.ignored(RuntimeError("out of memory")) is None
    assert rejections.ignored(RuntimeError("Failed to open context cache file.")) is not None


def test_a_runtime_that_refuses_the_version_it_claims_is_not_asked_for_its_functions() -> None:
    asked: list[int] = []
    refuse = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(asked.append)
    base = (ctypes.c_void_p * 2)(ctypes.cast(refuse, ctypes.c_void_p))
    with pytest.raises(RuntimeSupportError, match="refuses version"):
        abi.Runtime(abi.library(), ctypes.addressof(base))
    assert asked == [31 if runtime.version() >= (1, 31) else 28]
