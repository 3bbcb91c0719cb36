"""A reader written from docs/format.md alone: Tink, the standard library, AES-GCM for the KEK."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import tink
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from support.asset_packages import VOCABULARY, AssetPackage
from support.services import Running
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
            ad = enc("sealcar v1 payload", "variant", pid, *scope, payload["name"], 1 << 20)
            opened[payload["name"]] = open_payload(folder.joinpath(*scope), payload, key, ad)
    for asset in record["assets"]:
        wrapped, aid = unb64(asset["wrapped"]), unb64(asset["asset_id"])
        wrapper = AESGCM(derive(root, "asset-wrap", pid))
        asset_key = wrapper.decrypt(wrapped[:12], wrapped[12:], enc("asset-key", pid, aid))
        key = derive(asset_key, "asset", aid)
        place = folder / "shared_assets" / asset["uri"].replace(":", "-")
        for payload in asset["payloads"]:
            ad = enc("sealcar v1 payload", "asset", aid, payload["name"], 1 << 20)
            plain = open_payload(place, payload, key, ad)
            opened[f"{asset['uri']}/{payload['name']}"] = plain
    return opened


def open_payload(place: Path, payload: dict[str, Any], key: bytes, ad: bytes) -> bytes:
    sealed = (place / payload["name"]).read_bytes()
    salt = b"sealcar v1 key commitment, not a Tink salt"
    commitment = hkdf(key, salt, enc(ad, sealed[:40]))
    assert hmac.compare_digest(commitment, unb64(payload["commitment"]))
    plain = tink_open(key, sealed, ad)
    assert len(plain) == payload["size"]
    return plain


def uri_of(files: dict[str, bytes]) -> str:
    lines = b""
    for path in sorted(files, key=str.encode):
        lines += f"{hashlib.sha256(files[path]).hexdigest()}  {path}\n".encode()
    return f"sha256:{hashlib.sha256(lines).hexdigest()}"


def test_a_reader_of_the_document_with_tink_opens_a_sealed_package() -> None:
    opened = open_package(FORMAT1 / "store/demo/1/g/1", FORMAT1 / "kek")
    assert set(opened) == {"model.onnx", "weights/part1.bin", "ctx_0.bin"}
    for name, plain in opened.items():
        seed = f"sealcar format 1 vectors: plaintext of {name}".encode()
        assert plain == hashlib.shake_256(seed).digest(len(plain))


def test_a_reader_of_the_document_opens_shared_assets_and_names_them_alike(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        AssetPackage.with_weights().import_into(running)
        folder = running.generation()
    (place,) = (folder / "shared_assets").iterdir()
    sealed = {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }
    uri = uri_of(sealed)
    assert place.name == uri.replace(":", "-")
    opened = open_package(folder, tmp_path / "kek")
    assert opened == {"model.onnx": b"model"} | {
        f"{uri}/{name}": data for name, data in VOCABULARY.items()
    }
