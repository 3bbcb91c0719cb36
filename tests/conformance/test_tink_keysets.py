"""What `sealcar keys export-tink` writes, taken by the `tink` package as anybody would."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest
import tink
from support.daemon import Daemon, run_command
from support.models import EXTERNAL_FILE, external_model
from support.payload_packages import (
    COMPONENT,
    PACKAGE,
    VARIANT,
    PlannedBytes,
    PlannedPackage,
    publish,
    varied,
)
from support.publishing import one_variant, with_asset, write, write_manifest
from support.tinkstreams import keys_of, tink_keyset
from tink import aead, secret_key_access, streaming_aead
from tink.integration import awskms

from sealcar import publish as publishing
from sealcar_server.sealing import tinkkeys
from sealcar_server.sealing.derivation import PayloadKey

if TYPE_CHECKING:
    from pathlib import Path

    from support.moto_server import KmsServer

ALLOWED: Final = {"admin.tink_export": "true"}
FOLDER: Final = "session.model_external_initializers_file_folder_path"
aead.register()


def exported(daemon: Daemon, address: str, *options: str) -> dict[str, Any]:
    """Run the command; the answer has the keyset's text in place of its path."""
    file = daemon.folder / "keyset.json"
    done = run_command(
        *("keys", "export-tink", address, str(file), *options),
        *("--admin", str(daemon.admin), "--json"),
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return {**answer, "keyset": file.read_text()}


def opened(handle: Any, file: Path, associated_data: str) -> bytes:  # noqa: ANN401  (tink publishes no types)
    primitive = handle.primitive(streaming_aead.StreamingAead)
    source = io.BytesIO(file.read_bytes())
    with primitive.new_decrypting_stream(source, bytes.fromhex(associated_data)) as stream:
        content: bytes = stream.read()
    return content


def all_opened(daemon: Daemon, answer: dict[str, Any], handle: Any) -> dict[str, bytes]:  # noqa: ANN401  (tink publishes no types)
    """Open every payload of a package's first generation as it lies in the store."""
    generation = daemon.store / PACKAGE / "1" / "g" / "1"
    return {
        one["name"]: opened(handle, generation / one["path"], one["associated_data"])
        for one in answer["payloads"]
    }


def test_any_tink_opens_a_variants_payloads_with_a_clear_keyset(tmp_path: Path) -> None:
    payloads = {"small": b"weights", "big": varied(3 << 20)}
    with Daemon(tmp_path, settings=ALLOWED) as daemon, daemon.connect() as client:
        publish(client, payloads)
        answer = exported(daemon, f"{PACKAGE}/{COMPONENT}/{VARIANT}", "--clear")
        handle = tink.json_proto_keyset_format.parse(answer["keyset"], secret_key_access.TOKEN)
        found = all_opened(daemon, answer, handle)
    assert {name: found[name] for name in payloads} == payloads
    assert found.keys() == {"model.onnx", *payloads}


def test_the_keys_of_shared_assets_are_in_the_same_keyset(tmp_path: Path) -> None:
    model, weights = external_model()
    root = tmp_path / "plain"
    uri = with_asset(root, {EXTERNAL_FILE: weights})
    write(root / "v", {"model.onnx": model})
    ort = {"model_file": "model.onnx", "session_options": {FOLDER: uri}}
    write_manifest(root, components=one_variant(executor_info={"ort": ort}))
    with Daemon(tmp_path, settings=ALLOWED) as daemon, daemon.connect() as client:
        with publishing.plan(root, name=PACKAGE) as plan:
            client.catalogue.import_(plan)
        (variant,) = client.catalogue.get(PACKAGE).variants
        answer = exported(daemon, f"{PACKAGE}/{variant.component}/{variant.variant}", "--clear")
        handle = tink.json_proto_keyset_format.parse(answer["keyset"], secret_key_access.TOKEN)
        found = all_opened(daemon, answer, handle)
    assert {found.pop("model.onnx"), *found.values()} == {model, weights}


def test_a_variant_of_very_many_payloads_is_told_whole(tmp_path: Path) -> None:
    # more than a message has room for
    many = tuple(PlannedBytes(f"blob-{at:04}", "blob", b"x") for at in range(1201))
    with Daemon(tmp_path, settings=ALLOWED) as daemon, daemon.connect() as client:
        client.catalogue.import_(PlannedPackage(many))
        answer = exported(daemon, f"{PACKAGE}/{COMPONENT}/{VARIANT}", "--clear")
    assert [one["name"] for one in answer["payloads"]] == [one.name for one in many]
    assert len({one["associated_data"] for one in answer["payloads"]}) == len(many)


def test_kms_any_tink_opens_a_keyset_that_is_encrypted_under_a_key_of_aws(
    kms_server: KmsServer, tmp_path: Path
) -> None:
    arn = kms_server.make()
    settings = {
        **ALLOWED,
        "keys.cloud.uri": kms_server.uri(arn),
        "keys.cloud.secret": f"file:{kms_server.credentials}",
    }
    with Daemon(tmp_path, settings=settings) as daemon, daemon.connect() as client:
        publish(client, {"weights": b"weights"})
        address = f"{PACKAGE}/{COMPONENT}/{VARIANT}"
        answer = exported(daemon, address, "--kek", "cloud")
        assert answer["kek_uri"] == f"aws-kms://{arn}"
        context = bytes.fromhex(answer["associated_data"])
        theirs = awskms.new_client(boto3_client=_boto(kms_server)).get_aead(answer["kek_uri"])
        handle = tink.json_proto_keyset_format.parse_encrypted(answer["keyset"], theirs, context)
        assert all_opened(daemon, answer, handle)["weights"] == b"weights"
        with pytest.raises(tink.TinkError):
            tink.json_proto_keyset_format.parse_encrypted(answer["keyset"], theirs, b"another")


def _boto(server: KmsServer) -> Any:  # noqa: ANN401  (boto3 publishes no types)
    return boto3.client(
        "kms",
        endpoint_url=server.url,
        region_name="eu-central-1",
        aws_access_key_id="customer",
        aws_secret_access_key="customer",  # noqa: S106  (any will do)
    )


@pytest.mark.parametrize("count", [1, 2, 300])
def test_both_forms_of_a_keyset_are_what_tink_itself_writes(count: int) -> None:
    keys = [PayloadKey(bytes([number % 256]) * 32, b"data") for number in range(count)]
    text = tinkkeys.clear_keyset(keys).decode()
    assert [key.key for key in keys_of(json.loads(text), b"data")] == [key.key for key in keys]
    handle = tink.json_proto_keyset_format.parse(text, secret_key_access.TOKEN)
    token = secret_key_access.TOKEN
    assert tink.proto_keyset_format.serialize(handle, token) == tinkkeys.binary_keyset(keys)
    if count == 1:
        ours = tinkkeys.binary_keyset(keys)
        assert tink.proto_keyset_format.serialize(tink_keyset(keys[0]), token) == ours
