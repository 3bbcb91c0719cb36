"""What references of `executor_info` stand for among a scope's payloads."""

from __future__ import annotations

import pytest

from sealcar.errors import InvalidNameError, NotFoundError
from sealcar.transfer.references import resolve, resolve_folder

HASH, OTHER = "a" * 64, "b" * 64
NAMES = (
    "model.onnx",
    "data/w.bin",
    f"sha256:{HASH}/vocab.txt",
    f"sha256:{HASH}/deep/er",
    f"sha256-{OTHER}/vocab.txt",
    f"sha256-{HASH}/vocab.txt",
)


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("model.onnx", "model.onnx"),
        ("./data//w.bin", "data/w.bin"),
        ("data/../model.onnx", "model.onnx"),
        # an asset that is served goes before a copy of it
        (f"sha256:{HASH}/vocab.txt", f"sha256:{HASH}/vocab.txt"),
        (f"sha256:{HASH}/deep/../deep/er", f"sha256:{HASH}/deep/er"),
        (f"sha256:{OTHER}/vocab.txt", f"sha256-{OTHER}/vocab.txt"),
        (f"sha256-{OTHER}/vocab.txt", f"sha256-{OTHER}/vocab.txt"),
    ],
)
def test_a_reference_leads_to_one_payload(reference: str, name: str) -> None:
    assert resolve(reference, NAMES) == name


@pytest.mark.parametrize(
    "reference",
    [
        "none",
        "data",
        "",
        ".",
        "Model.onnx",
        f"sha256:{HASH}",
        f"sha256:{HASH}/",
        f"sha256:{HASH.upper()}/vocab.txt",
        f"sha256:{'c' * 64}/vocab.txt",
        f"sha256:{OTHER}x/vocab.txt",
    ],
)
def test_a_reference_to_no_payload_is_not_found(reference: str) -> None:
    with pytest.raises(NotFoundError, match="no payload"):
        resolve(reference, NAMES)


@pytest.mark.parametrize(
    "reference",
    [
        "..",
        "../model.onnx",
        "data/../../model.onnx",
        "/model.onnx",
        "//model.onnx",
        "a\0b",
        f"sha256:{HASH}/../model.onnx",
        f"sha256:{HASH}//etc/passwd",
        f"sha256:{HASH}/..",
        f"sha256:{OTHER}/../../x",
    ],
)
def test_a_reference_leads_out_of_no_folder(reference: str) -> None:
    for function in (resolve, resolve_folder):
        with pytest.raises(InvalidNameError, match="leads out of its folder"):
            function(reference, NAMES)


@pytest.mark.parametrize(
    ("reference", "prefix"),
    [
        ("", ""),
        (".", ""),
        ("data", "data/"),
        ("data/", "data/"),
        (f"sha256:{HASH}", f"sha256:{HASH}/"),
        (f"sha256:{HASH}/", f"sha256:{HASH}/"),
        (f"sha256:{HASH}/deep", f"sha256:{HASH}/deep/"),
        (f"sha256:{OTHER}", f"sha256-{OTHER}/"),
    ],
)
def test_a_reference_leads_to_a_folder(reference: str, prefix: str) -> None:
    assert resolve_folder(reference, NAMES) == prefix


@pytest.mark.parametrize("reference", ["dat", "model.onnx", f"sha256:{'c' * 64}", "data/w"])
def test_a_folder_without_payloads_is_not_found(reference: str) -> None:
    with pytest.raises(NotFoundError, match="no folder"):
        resolve_folder(reference, NAMES)
