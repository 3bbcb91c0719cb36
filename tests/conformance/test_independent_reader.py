"""A reader written from docs/format.md alone: Tink, the standard library, AES-GCM for the KEK."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
from base64 import urlsafe_b64decode
from pathlib import Path

import tink
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from tink import secret_key_access, streaming_aead
from tink.proto import tink_pb2
from tink.proto.aes_gcm_hkdf_streaming_pb2 import (
    AesGcmHkdfStreamingKey,
    AesGcmHkdfStreamingKeyFormat,
)

TEMPLATE = streaming_aead.streaming_aead_key_templates.AES256_GCM_HKDF_1MB
FORMAT1 = Path(__file__).parent.parent / "data/format1"
streaming_aead.register()


def enc(*fields: str | bytes | int) -> bytes:
    out = b""
    for field in fields:
        raw = field.encode() if isinstance(field, str) else field
        raw = raw.to_bytes(8, "big") if isinstance(raw, int) else raw
        out += len(raw).to_bytes(4, "big") + raw
    return out


def unb64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def hkdf(key: bytes, salt: bytes, info: bytes) -> bytes:
    return hmac.digest(hmac.digest(salt, key, "sha256"), info + b"\1", "sha256")


def derive(root: bytes, *label_and_fields: str | bytes) -> bytes:
    return hkdf(root, hashlib.sha256(b"sealcar v1").digest(), enc(*label_and_fields))


def tink_open(key: bytes, sealed: bytes, ad: bytes) -> bytes:
    params = AesGcmHkdfStreamingKeyFormat.FromString(TEMPLATE.value).params
    value = AesGcmHkdfStreamingKey(key_value=key, params=params).SerializeToString()
    keyset = tink_pb2.Keyset(primary_key_id=1)
    entry = keyset.key.add(key_id=1, status=tink_pb2.ENABLED, output_prefix_type=tink_pb2.RAW)
    entry.key_data.type_url, entry.key_data.value = TEMPLATE.type_url, value
    entry.key_data.key_material_type = tink_pb2.KeyData.SYMMETRIC
    handle = tink.proto_keyset_format.parse(keyset.SerializeToString(), secret_key_access.TOKEN)
    primitive = handle.primitive(streaming_aead.StreamingAead)
    plain: bytes = primitive.new_decrypting_stream(io.BytesIO(sealed), ad).read()
    return plain


def open_package(folder: Path, kek_file: Path) -> dict[str, bytes]:
    envelope = json.loads((folder / "manifest.json").read_bytes())["additional_metadata"]["sealcar"]
    text = unb64(envelope["record"])
    record = json.loads(text)
    keks = dict(line.split() for line in kek_file.read_text().splitlines()[1:])
    wrapped, pid = unb64(record["kek"]["wrapped"]), unb64(record["package_id"])
    kek = AESGCM(bytes.fromhex(keks[record["kek"]["version"]]))
    root = kek.decrypt(wrapped[:12], wrapped[12:], enc("sealcar v1 key wrap", "1", pid))
    tag = hmac.digest(derive(root, "record", pid), b"sealcar v1 record\0" + text, "sha256")
    assert hmac.compare_digest(tag, unb64(envelope["tag"]))
    opened = {}
    for variant in record["variants"]:
        scope = (variant["component"], variant["variant"])
        key = derive(root, "variant", pid, *scope)
        for payload in variant["payloads"]:
            sealed = folder.joinpath(*scope, payload["name"]).read_bytes()
            ad = enc("sealcar v1 payload", "variant", pid, *scope, payload["name"], 1 << 20)
            salt = b"sealcar v1 key commitment, not a Tink salt"
            commitment = hkdf(key, salt, enc(ad, sealed[:40]))
            assert hmac.compare_digest(commitment, unb64(payload["commitment"]))
            opened[payload["name"]] = plain = tink_open(key, sealed, ad)
            assert len(plain) == payload["size"]
    return opened


def test_a_reader_of_the_document_with_tink_opens_a_sealed_package() -> None:
    opened = open_package(FORMAT1 / "store/demo/1/g/1", FORMAT1 / "kek")
    assert set(opened) == {"model.onnx", "weights/part1.bin", "ctx_0.bin"}
    for name, plain in opened.items():
        seed = f"sealcar format 1 vectors: plaintext of {name}".encode()
        assert plain == hashlib.shake_256(seed).digest(len(plain))
