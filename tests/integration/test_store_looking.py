"""What is in the store: authentic while the daemon has its keys, else marked as not."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import Daemon, run_command
from support.onnx_bytes import model_around
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, PlannedBytes, PlannedPackage
from support.tampering import edit_manifest

from sealcar import errors
from sealcar.admin import Admin
from sealcar.transfer.scopes import ScopeName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.client import Client

MODEL = model_around(b"a model that must not be seen")
PAYLOADS = (
    PlannedBytes("model.onnx", "model", MODEL),
    PlannedBytes("weights/one", "initializers", b"1"),
    PlannedBytes("weights/two", "initializers", b"22"),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("looking")) as daemon:
        with daemon.connect() as client:
            for version in ("1", "2"):
                client.catalogue.import_(PlannedPackage(PAYLOADS, version=version))
            with client.begin(PACKAGE, COMPONENT, VARIANT) as transaction:
                for each in PAYLOADS:
                    transaction.write(each.name, each.data, each.kind)
                transaction.commit()
        yield daemon


@pytest.fixture
def client(shared: Daemon) -> Iterator[Client]:
    with shared.connect() as connected:
        yield connected


@pytest.fixture
def locked(shared: Daemon) -> Iterator[Daemon]:
    with Admin(shared.admin, peer_uid=os.getuid()) as admin:
        admin.lock()
        yield shared
        admin.unlock()


def answer(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run_command(*arguments, "--json", SEALCAR_SOCKET=str(daemon.socket))
    assert done.returncode == code, done.stdout + done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def test_a_package_tells_of_its_versions_generations_and_manifest(
    shared: Daemon, client: Client
) -> None:
    detail = client.catalogue.get(PACKAGE)
    manifest = shared.store / PACKAGE / "2/g/2/manifest.json"
    assert detail.verified
    assert (detail.versions, detail.generations) == (("1", "2"), (2, 1))
    assert detail.manifest_sha256 == hashlib.sha256(manifest.read_bytes()).digest()
    assert client.catalogue.get(PACKAGE, "1").generations == (1,)


def test_a_locked_daemon_shows_what_it_has_and_says_that_it_is_not_verified(
    locked: Daemon, client: Client
) -> None:
    detail = client.catalogue.get(PACKAGE)
    assert not detail.verified
    assert (detail.summary.version, detail.summary.generation) == ("2", 2)
    (variant,) = detail.variants
    assert [each.name for each in variant.payloads] == [each.name for each in PAYLOADS]
    assert [each.name for each in client.catalogue.list()] == [PACKAGE] * 2
    assert answer(locked, "inspect", PACKAGE)["verified"] is False
    with pytest.raises(errors.LockedError):
        client.catalogue.resolve(ScopeName(PACKAGE, COMPONENT, VARIANT), "model.onnx")


def test_what_is_damaged_is_an_error_in_a_locked_daemon_too(locked: Daemon, client: Client) -> None:
    generation = locked.store / PACKAGE / "1/g/1"
    before = (generation / "manifest.json").read_bytes()
    try:
        edit_manifest(generation, lambda manifest: manifest.update(package_name="evil"))
        with pytest.raises(errors.NotAuthenticError, match="/package_name"):
            client.catalogue.get(PACKAGE, "1")
    finally:
        (generation / "manifest.json").write_bytes(before)


def test_a_scope_without_names_is_not_chosen_from_what_nobody_checked(
    locked: Daemon, client: Client
) -> None:
    assert locked.metric("sealcar_locked") == 1
    with pytest.raises(errors.LockedError):
        client.scope(PACKAGE).read("model.onnx")


def test_unknown_packages_look_the_same_in_a_locked_daemon(locked: Daemon, client: Client) -> None:
    for name, version in (("unknown", ""), (PACKAGE, "9")):
        with pytest.raises(errors.NotFoundError, match="no package"):
            client.catalogue.get(name, version)
    assert locked.metric("sealcar_locked") == 1


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        ("", []),
        ("model.onnx", ["model.onnx"]),
        ("./weights//one", ["weights/one"]),
        ("weights/../model.onnx", ["model.onnx"]),
        ("weights", ["weights/one", "weights/two"]),
        (".", ["model.onnx", "weights/one", "weights/two"]),
    ],
)
def test_a_reference_is_resolved_to_payloads(
    client: Client, reference: str, names: list[str]
) -> None:
    found = client.catalogue.resolve(ScopeName(PACKAGE, COMPONENT, VARIANT), reference)
    assert (found.version, found.generation) == ("2", 2)
    assert [each.name for each in found.payloads] == names


@pytest.mark.parametrize(
    ("scope", "reference", "error"),
    [
        (ScopeName(PACKAGE, COMPONENT, VARIANT), "../v/model.onnx", errors.InvalidNameError),
        (ScopeName(PACKAGE, COMPONENT, VARIANT), "/etc/passwd", errors.InvalidNameError),
        (ScopeName(PACKAGE, COMPONENT, VARIANT), "a\0b", errors.InvalidNameError),
        (ScopeName(PACKAGE, COMPONENT, VARIANT), "nothing", errors.NotFoundError),
        (ScopeName(PACKAGE, COMPONENT, VARIANT), f"sha256:{64 * 'a'}", errors.NotFoundError),
        (ScopeName(PACKAGE, COMPONENT, "other"), "", errors.NotFoundError),
        (ScopeName(PACKAGE, "other", ""), "", errors.NotFoundError),
        (ScopeName(PACKAGE, COMPONENT, ""), "model.onnx", errors.InvalidRequestError),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(
    client: Client, scope: ScopeName, reference: str, error: type[errors.SealcarError]
) -> None:
    with pytest.raises(error):
        client.catalogue.resolve(scope, reference)


def test_a_scope_is_resolved_without_a_reference(client: Client) -> None:
    found = client.catalogue.resolve(ScopeName(PACKAGE, "", ""))
    assert (found.name, found.version, found.generation) == (PACKAGE, "2", 2)


def test_inspect_draws_versions_and_generations_in_text_that_any_terminal_shows(
    shared: Daemon,
) -> None:
    socket = {"SEALCAR_SOCKET": str(shared.socket)}
    drawn = run_command("inspect", f"{PACKAGE}@1", **socket, PYTHONIOENCODING="ascii").stdout
    assert drawn.isascii()
    lines = drawn.splitlines()
    assert lines[0].startswith(f"{PACKAGE}@1, generation 1  (")
    assert lines[1:] == [
        f"|-- {COMPONENT}",
        f"|   `-- {VARIANT}  (no provider named)  sealed  {len(MODEL) + 3} B",
        f"|       |-- model.onnx  model  {len(MODEL)} B",
        "|       |-- weights/one  initializers  1 B",
        "|       `-- weights/two  initializers  2 B",
        "|-- versions: 1, 2 (current)",
        "`-- generations: 1 (shown)",
    ]
    told = answer(shared, "inspect", PACKAGE, "--generation", "1")
    assert (told["generation"], told["generations"]) == (1, [2, 1])
    assert (told["versions"], told["current_version"]) == (["1", "2"], "2")
    (payload,) = answer(
        shared, "inspect", f"{PACKAGE}/{COMPONENT}/{VARIANT}", "--resolve", "weights/../weights/one"
    )["payloads"]
    assert (payload["name"], payload["size"]) == ("weights/one", 1)
