"""From vendor to customer: a package moves between two daemons that share no key."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support import models
from support.daemon import Daemon, run_command
from support.payload_packages import PlannedBytes, PlannedPackage, varied

from sealcar import errors, publish
from sealcar.exports import Destination, Recipient
from sealcar_server.sealing import record
from sealcar_server.sealing.fields import b64, unb64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sealcar.catalogue import Imported

RIGHTS = ("list", "read", "write", "import", "verify", "export", "export-plain", "manage")
SECRET = varied(2 << 20)
MODEL = models.whole_model()
PEM = serialization.Encoding.PEM
KEYS: dict[str, Any] = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "x25519": x25519.X25519PrivateKey.generate(),
}
VENDOR, STRANGER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


def private(path: Path, key: Any) -> Path:  # noqa: ANN401  (any key)
    plain = serialization.NoEncryption()
    path.touch(0o600)
    path.write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain))
    return path


def public(path: Path, key: Any) -> Path:  # noqa: ANN401  (any key)
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(key.public_key().public_bytes(PEM, spki))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name, key in KEYS.items():
        private(folder / f"{name}.private", key)
        public(folder / f"{name}.pem", key)
    private(folder / "vendor.private", VENDOR)
    public(folder / "vendor.pem", VENDOR)
    return folder


def daemon(tmp_path: Path, settings: Mapping[str, str]) -> Daemon:
    made = Daemon(tmp_path, settings=settings)
    made.grant(os.geteuid(), rights=RIGHTS)
    return made


@pytest.fixture(scope="module")
def vendor(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {f"keys.to-{name}.uri": f"recipient:{folder / name}.pem" for name in KEYS}
    settings["transit.signing_key"] = f"file:{folder / 'vendor.private'}"
    with daemon(tmp_path_factory.mktemp("v"), settings) as made:
        with made.connect() as client:
            payloads = (
                PlannedBytes("model.onnx", "model", MODEL),
                PlannedBytes("secret", "other", SECRET),
            )
            client.catalogue.import_(PlannedPackage(payloads, "ocr"))
            with client.begin("ocr", "c", "compiled") as transaction:
                transaction.write("model.onnx", MODEL, "model")
                transaction.commit()
        yield made


@pytest.fixture(scope="module")
def customer(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {f"keys.inbox-{name}.uri": f"recipient:{folder / name}.private" for name in KEYS}
    settings["transit.publishers"] = str(folder / "vendor.pem")
    with daemon(tmp_path_factory.mktemp("c"), settings) as made:
        yield made


def sent(vendor: Daemon, path: Path, recipient: Recipient) -> Path:
    with vendor.connect() as client:
        client.catalogue.export("ocr", Destination(path, tar=True, recipient=recipient))
    return path


def taken(daemon: Daemon, path: Path, name: str | None = None) -> Imported:
    plan = publish.sealed_plan(path, name=name)
    assert plan is not None
    with plan, daemon.connect() as client:
        return client.catalogue.import_(plan, sealed=True)


@pytest.mark.parametrize("kind", KEYS)
def test_a_package_moves_to_a_daemon_that_shares_no_key_with_its_vendor(
    vendor: Daemon, customer: Daemon, tmp_path: Path, kind: str
) -> None:
    tar = sent(vendor, tmp_path / "ocr.tar", Recipient(f"to-{kind}"))
    made = taken(customer, tar, f"from-{kind}")
    assert (made.name, made.version, made.generation) == (f"from-{kind}", "1", 1)
    files = sorted((customer.folder / "state/audit").glob("*.jsonl"))
    lines = [json.loads(line) for line in files[-1].read_bytes().splitlines()]
    signed = VENDOR.public_key().public_bytes_raw().hex()
    assert any(
        (line.get("package"), line.get("publisher")) == (made.name, signed) for line in lines
    )
    with vendor.connect() as client:
        before = client.catalogue.get("ocr")
    with customer.connect() as client:
        after = client.catalogue.get(made.name)
        assert (after.package_id, after.kek_alias) == (before.package_id, "default")
        assert client.catalogue.verify(made.name).payloads == 3
        assert client.scope(made.name, "c", "v").read("secret") == SECRET
        assert client.scope(made.name, "c", "compiled").read("model.onnx") == MODEL
        with client.begin(made.name, "c", "own") as transaction:
            transaction.write("model.onnx", MODEL, "model")
            assert transaction.commit().name.generation == 2
    for place in ("c/v/secret", "c/compiled/model.onnx"):
        stored = (customer.store / made.name / "1/g/1" / place).read_bytes()
        assert stored == (vendor.store / "ocr/1/g/2" / place).read_bytes()


def test_neither_the_file_in_transit_nor_a_backup_of_the_vendor_opens_without_the_private_key(
    vendor: Daemon, customer: Daemon, tmp_path: Path
) -> None:
    tar = sent(vendor, tmp_path / "ocr.tar", Recipient("to-p256"))
    assert SECRET[8:1000] not in tar.read_bytes()
    # the vendor has all but the private key, and a customer all but the vendor's
    with pytest.raises(errors.KeyRefusedError, match="public key: it opens nothing"):
        taken(vendor, tar, "mine")
    with pytest.raises(errors.KeyRefusedError, match="doesn't belong to this package"):
        taken(customer, vendor.store / "ocr/1/g/2")


def test_a_package_in_transit_is_no_generation_of_a_store(
    vendor: Daemon, customer: Daemon, tmp_path: Path
) -> None:
    tar = sent(vendor, tmp_path / "ocr.tar", Recipient("to-p256"))
    with tarfile.open(tar) as archive:
        archive.extractall(customer.store / "ocr/1/g/1", filter="data")
    try:
        with customer.connect() as client, pytest.raises(errors.NotAuthenticError, match="transit"):
            client.catalogue.get("ocr", "1")
    finally:
        shutil.rmtree(customer.store / "ocr")


def test_a_package_for_somebody_else_is_refused(
    vendor: Daemon, customer: Daemon, tmp_path: Path
) -> None:
    stranger = public(tmp_path / "stranger.pem", ec.generate_private_key(ec.SECP256R1()))
    tar = sent(vendor, tmp_path / "ocr.tar", Recipient(key=stranger.read_bytes()))
    with pytest.raises(errors.KeyRefusedError, match="no key-encryption key"):
        taken(customer, tar)


def test_a_package_that_is_too_old_is_refused(
    vendor: Daemon, customer: Daemon, tmp_path: Path
) -> None:
    soon = Recipient("to-rsa", not_after=int(time.time()) + 1)
    tar = sent(vendor, tmp_path / "ocr.tar", soon)
    while time.time() <= soon.not_after:
        time.sleep(0.05)
    with pytest.raises(errors.RolledBackError, match="too old"):
        taken(customer, tar, "late")
    with pytest.raises(errors.InvalidRequestError, match="past"):
        sent(vendor, tmp_path / "again.tar", soon)


def repacked(tar: Path, change: Callable[[dict[str, str]], None]) -> Path:
    """Return an export as a directory whose envelope was changed."""
    out = tar.with_suffix(".out")
    with tarfile.open(tar) as archive:
        archive.extractall(out, filter="data")
    manifest = json.loads((out / "manifest.json").read_text())
    change(manifest["additional_metadata"]["sealcar"])
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


def test_only_a_known_publishers_package_is_taken(
    vendor: Daemon, customer: Daemon, tmp_path: Path
) -> None:
    tar = sent(vendor, tmp_path / "ocr.tar", Recipient("to-x25519"))

    def unsigned(envelope: dict[str, str]) -> None:
        del envelope["publisher"], envelope["signature"]

    def signed_by_a_stranger(envelope: dict[str, str]) -> None:
        made = STRANGER.sign(record.signed_text(unb64(envelope["record"])))
        publisher = STRANGER.public_key().public_bytes_raw()
        envelope.update(publisher=b64(publisher), signature=b64(made))

    def signed_in_anothers_name(envelope: dict[str, str]) -> None:
        made = STRANGER.sign(record.signed_text(unb64(envelope["record"])))
        envelope.update(signature=b64(made))

    for change, text in (
        (unsigned, "no publisher signed"),
        (signed_by_a_stranger, "isn't known"),
        (signed_in_anothers_name, "signature isn't of this package"),
    ):
        with pytest.raises(errors.NotAuthenticError, match=text):
            taken(customer, repacked(tar, change))
        shutil.rmtree(tar.with_suffix(".out"))


def test_the_command_sends_and_takes(
    vendor: Daemon, customer: Daemon, folder: Path, tmp_path: Path
) -> None:
    def run(daemon: Daemon, *arguments: str) -> str:
        done = run_command(*arguments, SEALCAR_SOCKET=str(daemon.socket))
        assert done.returncode == 0, done.stderr
        return done.stdout

    tar = str(tmp_path / "ocr.tar")
    pem = f"file:{folder / 'p256.pem'}"
    run(vendor, "export", "ocr", tar, "--to", pem, "--sign", "--not-after", "2099-01-01")
    assert tarfile.is_tarfile(tar)
    said = run(customer, "import", tar, "--name", "bought", "--version", "7")
    assert said.startswith("imported bought@7, generation 1:")
    done = run_command(
        *("export", "ocr", f"{tar}2", "--to", f"file:{folder / 'p256.private'}"),
        SEALCAR_SOCKET=str(vendor.socket),
    )
    assert (done.returncode, "private key" in done.stderr) == (2, True)


def test_what_is_to_be_signed_and_cant_be_leaves_nothing(
    customer: Daemon, folder: Path, tmp_path: Path
) -> None:
    # the customer's daemon has no key to sign with
    with customer.connect() as client:
        client.catalogue.import_(PlannedPackage((PlannedBytes("secret", "other", b"s"),), "own"))
    command = ("export", "own", str(tmp_path / "own.tar"), "--to", f"file:{folder / 'p256.pem'}")
    done = run_command(*command, "--sign", SEALCAR_SOCKET=str(customer.socket))
    assert (done.returncode, "transit.signing_key" in done.stderr) == (1, True), done.stderr
    assert not any(tmp_path.iterdir())
    assert run_command(*command, SEALCAR_SOCKET=str(customer.socket)).returncode == 0
    done = run_command(*command[:3], "--sign", SEALCAR_SOCKET=str(customer.socket))
    assert done.returncode == 2
