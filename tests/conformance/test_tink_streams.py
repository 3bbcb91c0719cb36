"""sealcar and the `tink` package open each other's streams."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest
from support.streams import seal, unseal
from support.tinkstreams import tink_seal, tink_unseal

from sealcar_server.sealing.derivation import PackageKeys, PayloadKey
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZES: Final = (
    0,
    1,
    FIRST_PIECE - 1,
    FIRST_PIECE,
    FIRST_PIECE + 1,
    FIRST_PIECE + PIECE - 1,
    FIRST_PIECE + PIECE,
    FIRST_PIECE + PIECE + 1,
    FIRST_PIECE + 8 * PIECE + 12_345,
)


@pytest.fixture
def key() -> Iterator[PayloadKey]:
    with PackageKeys(SecretBuffer.random(32), bytes(range(16))) as keys:
        yield keys.variant("détection", "qnn/v73", "ctx/model.bin")


@pytest.mark.parametrize("size", SIZES)
def test_tink_opens_what_sealcar_sealed(size: int, key: PayloadKey, tmp_path: Path) -> None:
    plain, path = os.urandom(size), tmp_path / "sealed"
    seal(path, key, plain)
    assert tink_unseal(key, path.read_bytes()) == plain


@pytest.mark.parametrize("size", SIZES)
def test_sealcar_opens_what_tink_sealed(size: int, key: PayloadKey, tmp_path: Path) -> None:
    plain, path = os.urandom(size), tmp_path / "sealed"
    path.write_bytes(tink_seal(key, plain))
    assert unseal(path, key) == plain


def test_tink_opens_an_asset_sealed_once_for_two_packages(tmp_path: Path) -> None:
    asset_id, plain, path = bytes(16), b"shared weights" * 1000, tmp_path / "sealed"
    with (
        SecretBuffer.random(32) as asset_key,
        PackageKeys(SecretBuffer.random(32), b"a" * 16) as one,
        PackageKeys(SecretBuffer.random(32), b"b" * 16) as other,
    ):
        seal(path, one.asset(asset_key, asset_id, "w.bin"), plain)
        with other.unwrap_asset(other.wrap_asset(asset_key, asset_id), asset_id) as unwrapped:
            key = other.asset(unwrapped, asset_id, "w.bin")
    assert tink_unseal(key, path.read_bytes()) == plain
