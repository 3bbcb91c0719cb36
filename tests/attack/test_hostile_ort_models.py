"""Models in ONNX Runtime's own format, made to have it read what isn't theirs.

The runtime maps them and believes what it doesn't check; so whatever it refuses in bytes of its own
it has to refuse where they lie, and whoever loads them lives on.
"""

from __future__ import annotations

import importlib
import os
import random
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from support import eps, flows, models, ort_format
from support.daemon import Daemon
from support.payload_packages import PlannedBytes, PlannedPackage

from sealcar.errors import InvalidPackageError
from sealcar.ort import abi, load, placing, runtime
from sealcar.transfer.named import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.client import Client
    from sealcar.ort.loading import Initializers

SCHEMA: Final = "onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs"
KINDS: Final[tuple[Initializers, ...]] = ("private", "shared")
CPU: Final = ("CPUExecutionProvider",)
DIMS: Final = struct.pack("<qq", ort_format.WIDTH, ort_format.WIDTH)
# fields of a tensor, in the order of its table
RAW_DATA, EXTERNAL_OFFSET = 4, 6
DAMAGED: Final = 12
HEAD: Final = 700


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return ort_format.converted(tmp_path_factory.mktemp("m") / "model.ort").read_bytes()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


def larger_than_its_data(model: bytearray) -> None:
    """Have a tensor claim what lies behind the model in memory."""
    at = model.index(DIMS)
    struct.pack_into("<q", model, at, ort_format.WIDTH * 100)


def first_tensor(model: bytearray) -> Any:  # noqa: ANN401  (untyped flatbuffers)
    # only after sealcar.ort, which keeps the runtime's event database off
    fbs = importlib.import_module(f"{SCHEMA}.InferenceSession")
    return fbs.InferenceSession.GetRootAs(model, 0).Model().Graph().Initializers(0)._tab


def data_elsewhere(model: bytearray) -> None:
    """Have a tensor say that its data lies in a file, at an offset, and have none itself."""
    table = first_tensor(model)
    known = table.Pos - struct.unpack_from("<i", model, table.Pos)[0]
    size, inline = struct.unpack_from("<HH", model, known)
    fields = [*struct.unpack_from(f"<{size // 2 - 2}H", model, known + 4), 0, 0][:7]
    fields[RAW_DATA] = 0
    fields[EXTERNAL_OFFSET] = inline + -(table.Pos + inline) % 8
    model += bytes(-len(model) % 8)
    struct.pack_into("<i", model, table.Pos, table.Pos - len(model))
    model += struct.pack("<9H", 18, inline, *fields)


def cut(model: bytearray) -> None:
    del model[-len(model) // 3 :]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the link to a model lie where a test can look."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def import_(client: Client, name: str, model: bytes | bytearray) -> None:
    planned = (PlannedBytes("model.ort", "model", bytes(model)),)
    client.catalogue.import_(PlannedPackage(planned, name))


def loaded(client: Client, name: str, kind: Initializers) -> Any:  # noqa: ANN401  (untyped runtime)
    options = eps.quiet_options()
    return load(client, name, session_options=options, providers=CPU, initializers=kind)


def of_bytes(model: bytes | bytearray) -> type[Exception] | None:
    """Return what the runtime says of a model that it copies."""
    try:
        runtime.onnxruntime().InferenceSession(
            bytes(model), eps.quiet_options(), providers=CPU, enable_fallback=0
        )
    except abi.failures() as error:
        return type(error)
    return None


@pytest.mark.parametrize("spoil", [larger_than_its_data, data_elsewhere, cut])
def test_what_the_runtime_refuses_of_its_own_bytes_it_refuses_where_they_lie(
    client: Client, honest: bytes, nowhere: Path, spoil: Callable[[bytearray], None]
) -> None:
    model = bytearray(honest)
    spoil(model)
    expected = of_bytes(model)
    assert expected
    import_(client, spoil.__name__.replace("_", "-"), model)
    for kind in KINDS:
        with pytest.raises(expected) as refused:
            loaded(client, spoil.__name__.replace("_", "-"), kind)
        assert refused.value.__context__ is None, "it holds on to what the first try had"
        assert not ort_format.maps()
        assert not list(nowhere.iterdir())


def test_damaged_heads_are_taken_or_refused_as_the_runtime_takes_its_own_bytes(
    client: Client, honest: bytes, nowhere: Path
) -> None:
    chance = random.Random(7)  # noqa: S311  (repeatable)
    given = models.sample_input(ort_format.WIDTH)
    outcomes = []
    for number in range(DAMAGED):
        model = bytearray(honest)
        for _ in range(chance.randrange(1, 4)):
            model[chance.randrange(8, HEAD)] = chance.choice((0, 1, 4, 8, 127, 128, 255))
        expected = of_bytes(model)
        outcomes.append(expected is None)
        import_(client, f"damaged-{number}", model)
        if expected is None:
            loaded(client, f"damaged-{number}", "private")
        else:
            with pytest.raises(expected):
                loaded(client, f"damaged-{number}", "private")
    assert set(outcomes) == {True, False}
    assert not list(nowhere.iterdir())
    import_(client, "honest", honest)
    want = flows.on_cpu(ort_format.plain(), given)
    flows.assert_equal_answers(loaded(client, "honest", "private").run(None, given)[0], want)


def test_a_folder_put_in_the_place_of_the_links_brings_no_other_model(nowhere: Path) -> None:
    seen = []

    def make(given: str | bytes) -> Any:  # noqa: ANN401  (untyped runtime)
        [folder] = nowhere.iterdir()
        folder.rename(nowhere / "away")
        folder.mkdir()
        (folder / "model.ort").write_bytes(b"another")
        seen.append(Path(os.fsdecode(given)).read_bytes())
        return object()

    def fill(descriptor: int) -> None:
        os.pwrite(descriptor, b"model", 0)

    model = filled(5, fill)
    assert model
    with model:
        placing.session(eps.quiet_options(), model, make, shared=False)
    assert seen == [b"model"]


def test_a_compiled_model_is_found_out_where_it_lies(
    client: Client, honest: bytes, nowhere: Path
) -> None:
    import_(client, "compiled", honest + b"EPContext")
    for kind in KINDS:
        with pytest.raises(InvalidPackageError, match="must be an ONNX file"):
            loaded(client, "compiled", kind)
        assert not ort_format.maps()
    assert not list(nowhere.iterdir())
