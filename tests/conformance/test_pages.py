"""What the pages for readers show is run as it stands, in the order in which they say to read."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from support import models, pages
from support.daemon import environment

DOCS: Final = Path(__file__).parents[2] / "docs"
# each goes on where the one before ends, with one daemon
READ: Final = ("quick-start.md", "concepts.md", "upgrade.md")


def steps_to_take() -> list[pages.Step]:
    read = [step for page in READ for step in pages.steps((DOCS / page).read_text())]
    # what else this one shows works without a daemon, and is run by another test
    package = pages.steps((DOCS / "model-packages.md").read_text(), "console")
    return [*read, pages.Step("cd p"), *package]


def test_a_reader_who_does_what_the_pages_say_sees_what_they_show() -> None:
    steps = steps_to_take()
    # sockets have short paths
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        Path(folder, "detector.onnx").write_bytes(models.whole_model())
        Path(folder, "p", "words").mkdir(parents=True)
        Path(folder, "p", "words", "en.txt").write_text("a\n")
        Path(folder, "p", "det.onnx").write_bytes(models.whole_model())
        done = subprocess.run(
            ["/bin/bash", "-c", pages.script(steps)],
            cwd=folder,
            env={**environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    seen = pages.outputs(done.stdout)
    assert done.returncode == 0, (steps[len(seen) - 1], done.stderr[-2000:])
    assert len(seen) == len(steps) > 30
    wrong = {step.command: step.missing(text) for step, text in zip(steps, seen, strict=True)}
    assert {command: lines for command, lines in wrong.items() if lines} == {}
