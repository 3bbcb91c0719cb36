"""Which ONNX Runtime is installed, and how its compiled models can stay sealed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from sealcar.doctor.findings import Finding, State
from sealcar.errors import SealcarError

if TYPE_CHECKING:
    from sealcar.ort.compat import Plugin

_INSTALL: Final = "pip install 'sealcar[ort]'"
_BUILD: Final = "install a C compiler, then sealcar again"
_WAYS: Final = {
    "stable": "Compiled models are read and written through the stable callbacks (stable).",
    "experimental": "Compiled models are read and written through the callbacks of ONNX Runtime "
    "1.28 to 1.30 (experimental).",
    "bindings": "Compiled models go through Python's own bindings (bindings), at the price of a "
    "copy more: sealcar's native part isn't built.",
    "none": "Only models with everything inside work (none): sealcar's native part isn't built.",
}


def this_runtime() -> list[Finding]:
    """Look at ONNX Runtime, its callbacks, and the plugins that sealcar knows."""
    if find_spec("onnxruntime") is None:
        told = "ONNX Runtime isn't installed here, so no models are run."
        return [Finding("runtime", State.UNKNOWN, told, f"{_INSTALL}, where models are run")]
    from sealcar.ort import adapters, compat, runtime  # noqa: PLC0415  (load it)

    try:
        release = str(runtime.onnxruntime().__version__)
        version = runtime.version()
        way = adapters.callback_api()
    except SealcarError as error:
        return [Finding("runtime", State.PROBLEM, str(error), _INSTALL)]
    stable = version >= adapters.FIRST_STABLE
    return [
        Finding("runtime", State.OK, f"ONNX Runtime {release} is installed."),
        callbacks(way),
        *(plugin(each, each.installed(), version, stable=stable) for each in compat.plugins()),
    ]


def callbacks(way: str) -> Finding:
    """Judge how blobs come and go."""
    state = {"bindings": State.WEAKER, "none": State.PROBLEM}.get(way, State.OK)
    return Finding("callbacks", state, _WAYS[way], "" if state is State.OK else _BUILD)


def plugin(
    known: Plugin, installed: str | None, runtime: tuple[int, int], *, stable: bool
) -> Finding:
    """Judge one plugin.

    Args:
        known: what was tested.
        installed: its version, or None.
        runtime: version of ONNX Runtime.
        stable: plugins take the compat wrapper there, as those published today have to.
    """
    check = f"plugin: {known.distribution}"
    pairs = "; ".join(f"{each} with {', '.join(with_)}" for each, with_ in known.tested.items())
    if installed is None:
        return Finding(check, State.OK, f"It isn't installed; tested: {pairs}.")
    name = f"{runtime[0]}.{runtime[1]}"
    if not stable:
        told = f"{installed} is used as published with ONNX Runtime {name}; wrapped: {pairs}."
        return Finding(check, State.OK, told)
    if name in known.tested.get(installed, ()):
        return Finding(
            check, State.OK, f"{installed} is one of the pairs that were tested: {pairs}."
        )
    return Finding(
        check,
        State.WEAKER,
        f"{installed} wasn't tested with ONNX Runtime {name}, so it is refused; tested: {pairs}.",
        "install a pair that was tested, or give register_ep allow_untested=True",
    )
