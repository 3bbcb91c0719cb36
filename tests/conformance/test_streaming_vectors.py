"""Known answers of Tink's streaming format, through the product's own writer and reader."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from support.streams import opened, read, seal, unrecorded, unseal, writer_with
from support.tinkstreams import keys_of as keyset

from sealcar.errors import DamagedError, NotAuthenticError
from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.layout import Layout, Params
from sealcar_server.sealing.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA: Final = Path(__file__).parent.parent / "data/streaming/vectors.json"
KNOWN: Final[dict[str, Any]] = json.loads(DATA.read_text())
VECTORS: Final[dict[str, dict[str, Any]]] = {item["id"]: item for item in KNOWN["vectors"]}
LAX: Final = ("bytes appended to a full", "segment appended to a full", "empty last segment")


def key_of(entry: Mapping[str, Any]) -> PayloadKey:
    spec = KNOWN["keysets"][entry["keyset"]]
    params = Params(spec["segment_size"], spec["derived_key_size"], spec["hkdf_hash"])
    return PayloadKey(bytes.fromhex(spec["key"]), bytes.fromhex(entry["aad"]), params)


def plaintext_of(entry: Mapping[str, Any]) -> bytes:
    seed = entry["plaintext_seed"].encode()
    plain = hashlib.shake_256(seed).digest(entry["plaintext_size"])
    assert hashlib.sha256(plain).hexdigest() == entry["plaintext_sha256"]
    return plain


def sealed_again(entry: Mapping[str, Any], path: Path) -> PayloadKey:
    key = key_of(entry)
    salt, prefix = bytes.fromhex(entry["salt"]), bytes.fromhex(entry["nonce_prefix"])
    header = bytes([key.params.header]) + salt + prefix
    seal(path, key, plaintext_of(entry), writer_with(header))
    return key


def test_the_file_holds_all_that_it_should() -> None:
    assert (len(VECTORS), len(KNOWN["must_refuse"]), len(KNOWN["reads"])) == (42, 25, 14)


@pytest.mark.parametrize("name", VECTORS)
def test_the_writer_makes_the_very_bytes_that_tink_made(name: str, tmp_path: Path) -> None:
    entry, path = VECTORS[name], tmp_path / "sealed"
    key = sealed_again(entry, path)
    sealed = path.read_bytes()
    assert len(sealed) == entry["ciphertext_size"]
    assert hashlib.sha256(sealed).hexdigest() == entry["ciphertext_sha256"]
    assert sealed.hex() == entry.get("ciphertext", sealed.hex())
    assert Layout.of_file(len(sealed), key.params).count == entry["segments"]


@pytest.mark.parametrize("name", VECTORS)
def test_the_reader_opens_what_tink_made(name: str, tmp_path: Path) -> None:
    entry, path = VECTORS[name], tmp_path / "sealed"
    key = sealed_again(entry, path)
    if "ciphertext" in entry:
        path.write_bytes(bytes.fromhex(entry["ciphertext"]))
    assert unseal(path, key) == plaintext_of(entry)


@pytest.mark.parametrize("entry", KNOWN["must_refuse"], ids=lambda entry: entry["id"])
def test_the_reader_refuses_even_where_nothing_but_the_stream_tells(
    entry: Mapping[str, Any], tmp_path: Path
) -> None:
    key, path = key_of(entry), tmp_path / "sealed"
    path.write_bytes(bytes.fromhex(entry["ciphertext"]))
    scratch = Scratch(key.params.segment)
    with pytest.raises(DamagedError):
        unseal(path, key, scratch=scratch)
    assert not any(scratch.plain)


def test_the_reader_is_stricter_than_tink_in_three_cases_only() -> None:
    accepted = [entry["id"] for entry in KNOWN["must_refuse"] if entry["tink"] == "accepts"]
    assert len(accepted) == len(LAX)
    assert all(name.startswith(LAX) for name in accepted)


@pytest.mark.parametrize("entry", KNOWN["reads"], ids=lambda e: f"{e['of']}@{e['offset']}")
def test_any_range_can_be_read_alone(entry: Mapping[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "sealed"
    key = sealed_again(VECTORS[entry["of"]], path)
    scratch = Scratch(key.params.segment)
    with opened(path, key) as reader:
        found = read(reader, scratch, entry["offset"], entry["size"])
    assert hashlib.sha256(found).hexdigest() == entry["sha256"]


@pytest.mark.parametrize("name", KNOWN["rotation"]["opens"])
def test_of_a_rotated_keyset_exactly_one_key_opens_a_stream(name: str, tmp_path: Path) -> None:
    entry, path = VECTORS[name], tmp_path / "sealed"
    sealed_again(entry, path)
    opens = []
    for key in keyset(KNOWN["rotation"]["tink"], bytes.fromhex(entry["aad"])):
        try:
            opens.append(unseal(path, key))
        except DamagedError:
            continue
    assert opens == [plaintext_of(entry)]


@pytest.mark.parametrize("meant", [0, 1])
def test_a_stream_of_two_keys_opens_only_under_the_key_that_the_record_commits_to(
    meant: int, tmp_path: Path
) -> None:
    stream, path = KNOWN["two_keys_one_stream"], tmp_path / "sealed"
    path.write_bytes(bytes.fromhex(stream["ciphertext"]))
    keys = [keyset(face["keyset"], bytes.fromhex(face["aad"]))[0] for face in stream["faces"]]
    sealed = unrecorded(path, keys[meant])
    assert unseal(path, keys[meant], sealed).hex() == stream["faces"][meant]["plaintext"]
    # the other key's tags are valid too: only the commitment tells
    assert unseal(path, keys[1 - meant]).hex() == stream["faces"][1 - meant]["plaintext"]
    scratch = Scratch(keys[0].params.segment)
    with pytest.raises(NotAuthenticError, match="commits to"):
        unseal(path, keys[1 - meant], sealed, scratch)
    assert not any(scratch.plain), "nothing was decrypted"
