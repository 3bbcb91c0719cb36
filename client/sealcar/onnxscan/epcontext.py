"""Reads one EPContext node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.onnxscan import schema
from sealcar.onnxscan.values import EpContextNode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.onnxscan.wire import Found

# providers look at the operator alone, whatever its domain, so the same is done here
OPERATOR: Final = b"EPContext"
_MAX_NAME: Final = 1 << 16


def read_ep_context(name: str, path: str, attributes: Iterable[Found]) -> EpContextNode:
    """Return the node as its attributes describe it.

    Raises:
        InvalidPackageError: an attribute occurs twice, or a flag isn't 0 or 1.
    """
    known: dict[str, Found] = {}
    for found in attributes:
        key = found.text(schema.ATTRIBUTE_NAME)
        if key in known:
            raise InvalidPackageError(f"{path}: attribute {key!a} occurs twice")
        known[key] = found
    embed = _flag(known, "embed_mode", path)
    main = _flag(known, "main_context", path)
    cache = known.get("ep_cache_context")
    return EpContextNode(
        name=name,
        path=path,
        source=_text(known, "source"),
        ep_sdk_version=_text(known, "ep_sdk_version"),
        partition_name=_text(known, "partition_name"),
        main_context=main is not False,
        embed_mode=embed,
        cache_context=_name(cache) if embed is False else None,
        cache_span=None if cache is None else cache.span(schema.ATTRIBUTE_STRING),
        model_filename=_text(known, "onnx_model_filename"),
    )


def _name(cache: Found | None) -> bytes | None:
    if cache is None or schema.ATTRIBUTE_STRING not in cache:
        return None
    return cache.bytes_of(schema.ATTRIBUTE_STRING, _MAX_NAME)


def _flag(known: dict[str, Found], key: str, path: str) -> bool | None:
    if key not in known:
        return None
    value = known[key].integer(schema.ATTRIBUTE_INT)
    if value not in (0, 1):
        raise InvalidPackageError(f"{path}: {key} must be 0 or 1")
    return bool(value)


def _text(known: dict[str, Found], key: str) -> str:
    return known[key].text(schema.ATTRIBUTE_STRING, _MAX_NAME) if key in known else ""
