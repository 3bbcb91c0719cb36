"""Makes tests/data/format1 anew: PYTHONPATH=tests .venv/bin/python tests/data/make_format1.py

Every salt, nonce and key in it is fixed, so it makes the same bytes each time, and a test compares.
Change the format only with a reason, and these with it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    derive_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from support.streams import seal, writer_with

from sealcar_server.keys.key_pairs import fingerprint
from sealcar_server.keys.provider import package_context, transit_context
from sealcar_server.sealing import record
from sealcar_server.sealing.canonical import canonical, covered
from sealcar_server.sealing.derivation import PackageKeys, derive
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.fields import b64
from sealcar_server.sealing.layout import FIRST_PIECE
from sealcar_server.sealing.record import RecordPayload, RecordVariant, SealRecord, Transit
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from sealcar_server.sealing.strictjson import JsonValue

TARGET: Final = Path(__file__).parent / "format1"
SCOPE: Final = ("main", "cpu")
FOLDER: Final = "demo/1/g/1"
# name, kind, size of the plaintext, whether the record has its digest
PAYLOADS: Final = (
    ("model.onnx", "model", 1000, True),
    ("weights/part1.bin", "initializers", FIRST_PIECE + 1, True),
    ("ctx_0.bin", "blob", 1000, False),
)
MANIFEST: Final[dict[str, JsonValue]] = {
    "schema_version": "1.0",
    "package_name": "Demo",
    "package_version": "1",
    "description": "Anyone may change this sentence.",
    "components": {
        "main": {
            "variants": {
                "cpu": {
                    "variant_directory": "main/cpu",
                    "ep": "CPUExecutionProvider",
                    "executor_info": {
                        "ort": {"model_file": "model.onnx"},
                        "sealcar": {"format": "1"},
                    },
                }
            }
        }
    },
}
# the package key for each recipient, by HPKE, whose ephemeral keys are random
WRAPPED: Final[dict[str, str]] = {
    "x25519": (
        "c8cb3c76f965a96f01a7595e40d65712f0a144b7fefb0c24936534461dcd484fd42a7996eddab8de"
        "a78d1c1f25176b187473b1ec36dde808b8cb817086fb79b78d626ff54a9c9bdfd6c2f9c4120abd36"
    ),
    "p256": (
        "0467b4aa58bebbee15e9231e5331559536588ff1240932d17e8080d132fe8042805fd7e1164e4d4e"
        "b30702b0e24ec2e0d3e18cf49d72f49608a4b1d81cd539161685232d007f37e3a7abf6e562585912"
        "74bad2e84e7d736cc2c352b7beb7f5f8a8c24ec41e0f2670fe79e882a8baf110ad"
    ),
}
CANONICAL: Final = (
    "null",
    "-0",
    "1.5",
    '["é",true]',
    '{"b":1,"a":{"c":[]}}',
    "18446744073709551615",
)


def fixed(what: str, size: int) -> bytes:
    """Return bytes that look random and never change; public, so good for tests only."""
    return hashlib.shake_256(f"sealcar format 1 vectors: {what}".encode()).digest(size)


def make(target: Path) -> None:
    """Write the package, its key file and the vectors below a directory."""
    kek, root, package_id = fixed("kek", 32), fixed("package key", 32), fixed("package id", 16)
    store = target / "store"
    target.mkdir(parents=True, exist_ok=True)
    (target / "kek").write_text(f"sealcar key-encryption keys, format 1\n1 {kek.hex()}\n")
    with PackageKeys(SecretBuffer.copy_of(root), package_id) as keys:
        payloads = tuple(_payload(store, keys, *payload) for payload in PAYLOADS)
        text = record.serialise(_record(kek, root, package_id, payloads))
        envelope = record.envelope(text, keys.tag(text))
        manifest = {**MANIFEST, "additional_metadata": {"sealcar": envelope}}
        (store / FOLDER / "manifest.json").write_text(_dump(manifest))
        vectors = _vectors(keys, root, package_id, text)
        transit = _transit(keys, record.parse(text))
    (target / "vectors.json").write_text(_dump(vectors))
    (target / "broken.json").write_text(_dump(_broken()))
    (target / "transit.json").write_text(_dump(transit))


def _dump(value: Any) -> str:  # noqa: ANN401  (any JSON)
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _payload(
    store: Path,
    keys: PackageKeys,
    name: str,
    kind: str,
    size: int,
    digest: bool,  # noqa: FBT001
) -> RecordPayload:
    path = store / FOLDER / "/".join(SCOPE) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = fixed(f"plaintext of {name}", size)
    header = bytes([40]) + fixed(f"salt and prefix of {name}", 39)
    sealed = seal(path, keys.variant(*SCOPE, name), plain, writer_with(header))
    keyed = keys.digest(*SCOPE, name, hashlib.sha256(plain).digest()) if digest else b""
    return RecordPayload(name, kind, size, commitment=sealed.commitment, digest=keyed)


def _record(
    kek: bytes, root: bytes, package_id: bytes, payloads: tuple[RecordPayload, ...]
) -> SealRecord:
    found = covered(MANIFEST)
    nonce = fixed("nonce of the package key's wrap", 12)
    (variant,) = found.variants
    return SealRecord(
        name="demo",
        version="1",
        package_id=package_id,
        generation=1,
        previous=b"",
        kek_alias="default",
        kek_version="1",
        wrapped=nonce + AESGCM(kek).encrypt(nonce, root, package_context(package_id)),
        package=found.package,
        components=found.components,
        variants=(RecordVariant(*SCOPE, variant.body, variant.executor_info, payloads),),
    )


def _vectors(keys: PackageKeys, root: bytes, package_id: bytes, text: bytes) -> dict[str, Any]:
    with SecretBuffer.copy_of(root) as buffer:
        derived = {
            "record": derive(buffer, "record", package_id).hex(),
            "digest": derive(buffer, "digest", package_id).hex(),
            "asset-wrap": derive(buffer, "asset-wrap", package_id).hex(),
            "variant main/cpu": derive(buffer, "variant", package_id, *SCOPE).hex(),
        }
    return {
        "enc": {"fields": ["é", "", 1], "bytes": enc("é", "", 1).hex()},
        "canonical": [
            {"json": item, "bytes": canonical(json.loads(item)).hex()} for item in CANONICAL
        ],
        "package_key": root.hex(),
        "package_id": package_id.hex(),
        "wrap_context": package_context(package_id).hex(),
        "derived": derived,
        "record": json.loads(text),
        "record_sha256": hashlib.sha256(text).hexdigest(),
        "tag": keys.tag(text).hex(),
        "payloads": [
            {
                "name": name,
                "plaintext_sha256": hashlib.sha256(fixed(f"plaintext of {name}", size)).hexdigest(),
                "associated_data": keys.variant(*SCOPE, name).associated_data.hex(),
            }
            for name, _, size, _ in PAYLOADS
        ],
        "asset": _asset(root, package_id, keys),
    }


def _asset(root: bytes, package_id: bytes, keys: PackageKeys) -> dict[str, str]:
    key, asset_id = fixed("asset key", 32), fixed("asset id", 16)
    nonce = fixed("nonce of the asset key's wrap", 12)
    with SecretBuffer.copy_of(root) as buffer, SecretBuffer.copy_of(key) as asset_key:
        cipher = AESGCM(derive(buffer, "asset-wrap", package_id))
        payload = keys.asset(asset_key, asset_id, "vocab.txt")
    return {
        "asset_key": key.hex(),
        "asset_id": asset_id.hex(),
        "wrapped": (
            nonce + cipher.encrypt(nonce, key, enc("asset-key", package_id, asset_id))
        ).hex(),
        "name": "vocab.txt",
        "stream_key": payload.key.hex(),
        "associated_data": payload.associated_data.hex(),
        "digest_of_abc": keys.asset_digest(
            asset_id, "vocab.txt", hashlib.sha256(b"abc").digest()
        ).hex(),
    }


def recipients() -> dict[str, X25519PrivateKey | EllipticCurvePrivateKey]:
    """Return the private keys that the package is wrapped for."""
    number = int.from_bytes(fixed("P-256 recipient", 31), "big")
    return {
        "x25519": X25519PrivateKey.from_private_bytes(fixed("X25519 recipient", 32)),
        "p256": derive_private_key(number, SECP256R1()),
    }


def _transit(keys: PackageKeys, sealed: SealRecord) -> list[dict[str, Any]]:
    """Return the records of the package on its way to each recipient."""
    publisher = Ed25519PrivateKey.from_private_bytes(fixed("publisher", 32))
    made = []
    for kind, private in recipients().items():
        name = fingerprint(private.public_key())
        sent = replace(
            sealed,
            kek_alias=name,
            kek_version=name,
            # made once: it can't be made alike again
            wrapped=bytes.fromhex(WRAPPED[kind]),
            transit=Transit(not_after=4102444800),
        )
        text = record.serialise(sent)
        made.append(
            {
                "kind": kind,
                "private_key": private.private_bytes(
                    Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
                ).hex(),
                "recipient": name,
                "wrap_context": transit_context(sealed.package_id, name).hex(),
                "record": json.loads(text),
                "tag": keys.tag(text).hex(),
                "publisher": publisher.public_key().public_bytes_raw().hex(),
                "signature": publisher.sign(record.signed_text(text)).hex(),
            }
        )
    return made


def _broken() -> list[dict[str, Any]]:
    """Ten ways to damage the package, each with the class and the words of its refusal.

    `file` is below the generation; of its bytes `flip` inverts the lowest bit of one, `cut` keeps
    so many, `append` adds some; `swap` exchanges two files; `manifest` and `record` replace text,
    the record's inside the envelope, with the tag left as it is.
    """
    model, weights = "main/cpu/model.onnx", "main/cpu/weights/part1.bin"
    ours = '"package_id":"' + b64(fixed("package id", 16))
    forged, cut = "NotAuthenticError", "TruncatedError"
    cases: list[tuple[str, dict[str, Any], str, str]] = [
        ("a bit of the only segment", {"file": model, "flip": 100}, forged, "segment"),
        ("a bit of the salt", {"file": weights, "flip": 7}, forged, "commits to"),
        ("a bit of the last tag", {"file": weights, "flip": 1048592}, forged, "segment"),
        ("a bit of the first of two segments", {"file": weights, "flip": 50}, forged, "segment"),
        ("cut at a segment's end", {"file": weights, "cut": 1 << 20}, cut, "holds 1048520 bytes"),
        ("a byte too many", {"file": model, "append": "00"}, cut, "holds 1001 bytes"),
        ("two payloads swapped", {"swap": [model, "main/cpu/ctx_0.bin"]}, forged, "commits to"),
        (
            "a size in the record",
            {"record": ['"size":1000', '"size":1001']},
            forged,
            "seal record isn't authentic",
        ),
        (
            "the package id in the record",
            {"record": [ours, '"package_id":"' + "A" * 22]},
            "KeyRefusedError",
            "doesn't belong",
        ),
        (
            "the execution provider in the manifest",
            {"manifest": ["CPUExecutionProvider", "QNNExecutionProvider"]},
            forged,
            "/components/main/variants/cpu isn't what was sealed",
        ),
    ]
    return [
        {"what": what, "change": change, "error": error, "words": words}
        for what, change, error, words in cases
    ]


if __name__ == "__main__":
    shutil.rmtree(TARGET / "store", ignore_errors=True)
    make(TARGET)
