"""A large model in ONNX Runtime's own format: a session uses it where it lies, uncopied."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from support import eps, flows, models, ort_format, tampering
from support.daemon import Daemon, environment
from support.payload_packages import PlannedBytes, PlannedPackage

from sealcar import publish
from sealcar.errors import NotAuthenticError, PlaintextRefusedError
from sealcar.ort import configuration, load, runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.client import Client
    from sealcar.ort.loading import Initializers

CPU: Final = ("CPUExecutionProvider",)
DESCRIPTORS: Final = Path("/proc/self/fd")
KINDS: Final[tuple[Initializers, ...]] = ("private", "shared")
MAPPED: Final = "session.use_memory_mapped_ort_model"
IN_PLACE: Final = "session.use_ort_model_bytes_for_initializers"
UNPACKED: Final = "session.disable_prepacking"
# each worker says which memory its model is in, and keeps it until all have said so
WORKERS: Final = """
import os, sys
sys.path.insert(0, sys.argv[1])
import sealcar
from support import eps, models, ort_format
from sealcar.ort import load
def loaded(kind):
    options = eps.quiet_options()
    options.intra_op_num_threads = 1  # the runtime's threads don't survive a fork
    return load(client, "m", component="main", variant="onnx", session_options=options,
        providers=["CPUExecutionProvider"], initializers=kind)
def answer(session):
    return session.run(None, models.sample_input(ort_format.WIDTH))[0]
client = sealcar.connect(sys.argv[2], timeout=20)
inherited = loaded("private")
want = answer(inherited)
for number in range(3):
    if not os.fork():
        own = loaded("shared")
        assert abs(answer(own) - want).max() < 1e-3
        assert (answer(inherited) == want).all()
        inodes = [each.inode for each in ort_format.maps() if each.name == ort_format.SHARED]
        os.write(1, b"%d " % inodes[0])
        sys.stdin.read()
        os._exit(0)
sys.stdin.read()
for _ in range(3):
    os.wait()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ort_format.converted(tmp_path_factory.mktemp("m") / "model.ort")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Daemon]:
    onnx_model = ort_format.plain()
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            for name in ("m", "damaged"):
                with publish.plan(model, name=name) as plan:
                    client.catalogue.import_(plan)
            # names that say something else than what is in them
            for name, data in (("other.onnx", model.read_bytes()), ("other.ort", onnx_model)):
                planned = (PlannedBytes(name, "model", data),)
                client.catalogue.import_(PlannedPackage(planned, name.replace(".", "-")))
        yield daemon


def loaded(client: Client, kind: Initializers, *, name: str = "m", **entries: str) -> Any:  # noqa: ANN401  (untyped runtime)
    options = eps.quiet_options()
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    return load(client, name, session_options=options, providers=CPU, initializers=kind)


def on_a_device() -> Any:  # noqa: ANN401  (untyped runtime)
    """Return options that name the CPU as a device."""
    devices = runtime.onnxruntime().get_ep_devices()
    cpu = [each for each in devices if each.ep_name == CPU[0]]
    options = eps.quiet_options()
    options.add_provider_for_devices(cpu[:1], {})
    return options


def assert_answers(session: Any) -> None:  # noqa: ANN401  (untyped runtime)
    given = models.sample_input(ort_format.WIDTH)
    flows.assert_equal_answers(session.run(None, given)[0], flows.on_cpu(ort_format.plain(), given))


@pytest.mark.parametrize(
    ("kind", "memory"), [("private", ort_format.OWN), ("shared", ort_format.SHARED)]
)
def test_a_session_maps_the_model_once_and_holds_no_descriptor_of_it(
    client: Client, kind: Initializers, memory: str
) -> None:
    loaded(client, kind)
    before = len(list(DESCRIPTORS.iterdir()))
    session = loaded(client, kind)
    assert len(list(DESCRIPTORS.iterdir())) == before
    [found] = ort_format.maps()
    assert found.name == memory
    assert "dd" in found.flags, "a core dump would have the model in it"
    assert "sh" not in found.flags
    assert_answers(session)
    del session
    assert not ort_format.maps()


def test_workers_have_one_copy_and_go_on_using_what_they_inherit(daemon: Daemon) -> None:
    arguments = ("tests", str(daemon.socket))
    with subprocess.Popen(
        [sys.executable, "-c", WORKERS, *arguments],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as workers:
        assert workers.stdout
        said = ""
        while said.count(" ") < 3:
            character = workers.stdout.read(1)
            assert character
            said += character
        assert len(set(said.split())) == 1
        workers.communicate()
    assert workers.returncode == 0


def test_only_a_shared_model_stays_unpacked(client: Client) -> None:
    entries = []
    for kind in KINDS:
        options = eps.quiet_options()
        load(client, "m", session_options=options, providers=CPU, initializers=kind)
        entries.append(configuration.entries_of(options).get(UNPACKED))
    assert entries == [None, "1"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entry", [MAPPED, IN_PLACE])
def test_a_caller_who_wants_the_runtimes_own_copy_gets_it(
    client: Client, kind: Initializers, entry: str
) -> None:
    session = loaded(client, kind, **{entry: "0"})
    assert not ort_format.maps()
    assert_answers(session)


def test_a_caller_who_wants_shared_weights_packed_gets_them_so(client: Client) -> None:
    session = loaded(client, "shared", **{UNPACKED: "0"})
    assert not ort_format.maps(), "weights were packed, and the model kept beside"
    assert_answers(session)


def test_other_providers_are_given_no_path(client: Client) -> None:
    both = ("AzureExecutionProvider", *CPU)
    for options, providers in ((eps.quiet_options(), both), (on_a_device(), None)):
        session = load(client, "m", session_options=options, providers=providers)
        assert bool(ort_format.maps()) == (providers is None)
        assert_answers(session)


@pytest.mark.parametrize("kind", KINDS)
def test_options_serve_again_for_models_of_both_formats(client: Client, kind: Initializers) -> None:
    options = eps.quiet_options()
    for name in ("m", "other-ort", "m"):
        session = load(client, name, session_options=options, providers=CPU, initializers=kind)
        assert_answers(session)
    plain = runtime.onnxruntime().InferenceSession(ort_format.plain(), options, providers=CPU)
    assert_answers(plain)


@pytest.mark.parametrize("name", ["other-onnx", "other-ort"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_says_something_else_changes_nothing(
    client: Client, kind: Initializers, name: str
) -> None:
    session = loaded(client, kind, name=name)
    assert not ort_format.maps()
    assert_answers(session)


@pytest.mark.parametrize("kind", KINDS)
def test_without_room_for_the_link_the_model_is_given_as_bytes(
    client: Client, kind: Initializers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    session = loaded(client, kind)
    assert not ort_format.maps()
    assert_answers(session)


def test_a_process_that_can_make_no_such_memory_gets_the_model_as_bytes(client: Client) -> None:
    loaded(client, "private", name="other-onnx")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        session = loaded(client, "private")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not ort_format.maps()
    assert_answers(session)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_model_is_refused_and_nothing_of_it_stays(
    daemon: Daemon, client: Client, kind: Initializers
) -> None:
    [file] = (daemon.store / "damaged").rglob("model.ort")
    tampering.flip(file, file.stat().st_size // 2)
    try:
        with pytest.raises(NotAuthenticError, match=r"damaged@1/main/onnx/model\.ort"):
            loaded(client, kind, name="damaged")
    finally:
        tampering.flip(file, file.stat().st_size // 2)
    assert not ort_format.maps()
    assert_answers(loaded(client, kind, name="damaged"))


def test_the_options_of_a_map_are_the_callers_and_no_packages(client: Client) -> None:
    for entry in (MAPPED, IN_PLACE):
        assert_answers(loaded(client, "private", **{entry: "1"}))
    with pytest.raises(PlaintextRefusedError, match="use_ort_model_bytes_directly"):
        loaded(client, "private", **{"session.use_ort_model_bytes_directly": "1"})
