"""The demonstration's applications: what somebody's own program would do, each in its own process.

    python -m sealcar.demo.application PARENT compile PLUGIN
    python -m sealcar.demo.application PARENT detect PLUGIN FILE…
    python -m sealcar.demo.application PARENT plain FILE…

The daemon is found by SEALCAR_SOCKET. Answers are JSON objects, one a line, on standard output.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sealcar
from sealcar.demo.leash import answers_only, hold
from sealcar.demo.plugins import PLUGINS
from sealcar.errors import RuntimeSupportError, SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.demo.plugins import Plugin
    from sealcar.ort.runtime import Session, SessionOptions

    Answers = Iterator[dict[str, Any]]

PACKAGE: Final = "magika"
COMPONENT: Final = "main"
SOURCE: Final = "onnx"


def compile_(plugin: str) -> Answers:
    """Compile the sealed source variant for a plugin; the result is another sealed variant."""
    from sealcar import ort  # noqa: PLC0415  (before onnxruntime: it keeps the event database off)

    wanted = PLUGINS[plugin]
    options = _options(wanted)
    with sealcar.connect() as client:
        source = client.scope(PACKAGE, COMPONENT, SOURCE)
        if wanted.accelerator:
            from sealcar.demo import rewiring  # noqa: PLC0415  (onnx, only where it is needed)

            options.add_free_dimension_override_by_name(rewiring.batch_of(source), 1)
            source = rewiring.fit_for_half(client, source)
        begun = time.perf_counter()
        made = ort.compile(
            client,
            PACKAGE,
            component=COMPONENT,
            source=source.variant,
            variant=wanted.variant,
            session_options=options,
            optimization="basic" if wanted.accelerator else "off",
        )
        yield {
            "seconds": time.perf_counter() - begun,
            "ep": made.ep,
            "device": made.device,
            "generation": made.generation,
            "blobs": {each.name: each.size for each in made.payloads if each.kind == "blob"},
        }


def detect(plugin: str, *files: str) -> Answers:
    """Load the compiled variant and let Magika say what each file is."""
    from sealcar import ort  # noqa: PLC0415  (as above)
    from sealcar.ort import runtime  # noqa: PLC0415  (as above)

    wanted = PLUGINS[plugin]
    with sealcar.connect() as client:
        begun = time.perf_counter()
        session = ort.load(
            client,
            PACKAGE,
            component=COMPONENT,
            variant=wanted.variant,
            session_options=_options(wanted),
        )
        yield {
            "seconds": time.perf_counter() - begun,
            "ort_version": runtime.onnxruntime().__version__,
            "callback_api": ort.callback_api(),
            "providers": session.get_providers(),
        }
        yield from _identify(lambda: session, files)


def plain(*files: str) -> Answers:
    """Let Magika say what each file is with its own plain model."""
    yield from _identify(None, files)


def _identify(session: Callable[[], Session] | None, files: tuple[str, ...]) -> Answers:
    from sealcar.ort import runtime  # noqa: PLC0415  (as above)

    runtime.onnxruntime()
    from magika import Magika  # noqa: PLC0415  (imports onnxruntime)

    class Detector(Magika):  # type: ignore[misc]  # publishes no types
        """Magika as it is, but for where its model comes from."""

        def _init_onnx_session(self) -> Session:
            return session() if session is not None else super()._init_onnx_session()

    detector = Detector()
    for file in files:
        # one at a time: some providers compile for a fixed number of files
        result = detector.identify_path(Path(file))
        yield {
            "file": Path(file).name,
            "label": str(result.output.label),
            "model_label": str(result.dl.label),
            "score": float(result.score),
        }


def _options(plugin: Plugin) -> SessionOptions:
    from sealcar import ort  # noqa: PLC0415  (as above)
    from sealcar.ort import runtime  # noqa: PLC0415  (as above)

    devices = ort.register_ep(plugin.module)
    mine = [device for device in devices if device.ep_name == plugin.provider]
    if not mine:
        raise RuntimeSupportError(
            f"{plugin.title} finds no device that it can run on; try another with --ep"
        )
    options = runtime.onnxruntime().SessionOptions()
    options.add_provider_for_devices(mine[:1], dict(plugin.options))
    return options


def main(parent: str, task: str, *arguments: str) -> int:
    """Run one task and return the exit code."""
    hold(int(parent))
    answers = answers_only()
    tasks: dict[str, Callable[..., Answers]] = {
        "compile": compile_,
        "detect": detect,
        "plain": plain,
    }
    try:
        for answer in tasks[task](*arguments):
            answers.write(json.dumps(answer) + "\n")
    except SealcarError as error:
        about = {"kind": type(error).__name__, "message": str(error)}
        answers.write(json.dumps({"error": about}) + "\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
