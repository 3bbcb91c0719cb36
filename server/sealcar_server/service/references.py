"""Where a variant names shared assets: the three places in which ONNX Runtime follows a reference.

Namespaces of `executor_info` other than ORT's own belong to others: what stands in them is neither
read nor rewritten.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar_server.sealing.strictjson import JsonValue

_ORT: Final = "ort"
_OPTIONS: Final = "session_options"
# of session options
DATA_FOLDER: Final = "session.model_external_initializers_file_folder_path"
CONTEXT_FILE: Final = "ep.context_file_path"
_REFERENCE: Final = re.compile(r"(sha256:[0-9a-f]{64})(?:/(.*))?", re.DOTALL)
_URI: Final = re.compile(r"sha256:[0-9a-f]{64}")
# each as the steps from the namespace of ORT
_PLACES: Final = (
    ("model_file",),
    (_OPTIONS, DATA_FOLDER),
    (_OPTIONS, CONTEXT_FILE),
)


def is_uri(text: str) -> bool:
    """Tell whether a text is the URI of an asset and nothing more."""
    return bool(_URI.fullmatch(text))


def asset_in(reference: str) -> tuple[str, str]:
    """Return the URI that a reference begins with, and the path in that asset; "" without one."""
    match = _REFERENCE.fullmatch(reference)
    return (match[1], match[2] or "") if match else ("", "")


def named(executor_info: JsonValue) -> tuple[str, ...]:
    """Return the URIs of the assets that ORT is led to, each once."""
    found = (asset_in(text)[0] for _, text in _references(executor_info))
    return tuple(dict.fromkeys(uri for uri in found if uri))


def renamed(
    executor_info: Mapping[str, JsonValue], uris: Mapping[str, str]
) -> dict[str, JsonValue]:
    """Return it with other URIs in ORT's places; what isn't in `uris` stays."""
    changed = dict(executor_info)
    for path, text in _references(dict(executor_info)):
        uri, _ = asset_in(text)
        if uri in uris:
            changed = _with(changed, (_ORT, *path), uris[uri] + text[len(uri) :])
    return changed


def _references(executor_info: JsonValue) -> Iterator[tuple[tuple[str, ...], str]]:
    for path in _PLACES:
        found = executor_info
        for step in (_ORT, *path):
            found = found.get(step) if isinstance(found, dict) else None
        if isinstance(found, str):
            yield path, found


def _with(value: dict[str, JsonValue], path: tuple[str, ...], text: str) -> dict[str, JsonValue]:
    step, *rest = path
    if not rest:
        return {**value, step: text}
    # `_references` found something below, so these are objects
    inner = cast("dict[str, JsonValue]", value[step])
    return {**value, step: _with(inner, tuple(rest), text)}
