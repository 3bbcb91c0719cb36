"""`python -m tests.fuzz TARGET [options of libFuzzer]`, from the root of the tree.

Inputs that were found to go new ways are kept in .fuzz/corpus; one that ends in anything but an
error of ours is written to .fuzz/crashes, and ends the run.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

if TYPE_CHECKING:
    from fuzz.targets import Target


def mutated(target: Target, data: bytes, longest: int, seed: int) -> bytes:
    """Change an input, half of the times in the way of its kind."""
    source = random.Random(seed)  # noqa: S311  (no secret)
    made = target.changed(data, source) if target.changed and seed % 2 else None
    if made is None or len(made) > longest:
        return bytes(atheris.Mutate(data, longest))
    return made


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    with atheris.instrument_imports(include=["sealcar", "sealcar_server"]):
        from fuzz.targets import TARGETS

    name, *options = sys.argv[1:]
    corpus, crashes = (Path(".fuzz") / kind / name for kind in ("corpus", "crashes"))
    for folder in (corpus, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    target = TARGETS[name]
    with target.prepared() as (one, seeds):
        for at, seed in enumerate(seeds):
            (corpus / f"seed-{at}").write_bytes(seed)
        flags = [
            f"-artifact_prefix={crashes}/",
            "-timeout=20",
            "-rss_limit_mb=3000",
            "-verbosity=0",
        ]
        arguments = [sys.argv[0], f"-max_len={target.longest}", *flags, *options, str(corpus)]
        more = {"custom_mutator": partial(mutated, target)} if target.changed else {}
        atheris.Setup(arguments, one, **more)
        atheris.Fuzz()
