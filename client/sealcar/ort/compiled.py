"""What a compiled model says of itself: what belongs to it, and who made it for which machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.errors import RuntimeSupportError
from sealcar.names import shown
from sealcar.ort import fitting, scopes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from sealcar.onnxscan import ModelScan

_COMPATIBILITY: Final = "ep_compatibility_info."


@dataclass(frozen=True)
class Origin:
    """Where a compiled model comes from.

    Attributes:
        model: its name.
        ep: provider that made its blobs.
        compatibility: what that left to recognise its machine by; empty: nothing.
        info: what a description of the variant says besides, by namespace of `executor_info`.
    """

    model: str
    ep: str
    compatibility: str
    info: Mapping[str, object]


def origin_of(found: ModelScan, model: str) -> Origin:
    """Return where a compiled model comes from, by its metadata and its nodes."""
    info = fitting.info_of(found)
    for key, value in found.metadata.items():
        if key.startswith(_COMPATIBILITY):
            return Origin(model, key.removeprefix(_COMPATIBILITY), value, info)
    source = next((node.source for node in found.ep_contexts if node.source), "")
    return Origin(model, source, "", info)


def check_complete(found: ModelScan, written: AbstractSet[str], weights: str) -> None:
    """Check that a compiled model names exactly what was written.

    Args:
        found: what the compiled model refers to.
        written: names of the blobs that were written.
        weights: name of the external file that was written; empty: none.

    Raises:
        RuntimeSupportError: no node was compiled, something is missing, or something is left over.
    """
    if not found.ep_contexts:
        raise RuntimeSupportError(
            "no node was compiled: is the execution provider in the session options, and does it "
            "support the model?"
        )
    if scopes.weightless(found):
        raise RuntimeSupportError(
            "weightless compilation isn't supported: the compiled model reads its weights from the "
            "plain one"
        )
    named = {node.cache_context for node in found.ep_contexts if node.cache_context is not None}
    _check_equal("blob", {name.decode(errors="backslashreplace") for name in named}, written)
    files = {tensor.external.location for tensor in found.external if tensor.external}
    _check_equal("file", files, {weights} if weights else set())


def _check_equal(what: str, named: AbstractSet[str], written: AbstractSet[str]) -> None:
    for left, text in ((named - written, "names"), (written - named, "doesn't name")):
        if left:
            names = ", ".join(shown(name) for name in sorted(left))
            state = "wasn't" if text == "names" else "was"
            raise RuntimeSupportError(
                f"the compiled model {text} {what} {names}, which {state} written"
            )
