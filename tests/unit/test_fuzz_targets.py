"""What is fuzzed at length by `make fuzz` holds for its first inputs, and for damaged ones."""

from __future__ import annotations

import random

import pytest
from fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_our_own_errors_comes_of_an_input_or_of_a_damaged_one(name: str) -> None:
    source = random.Random(1)  # noqa: S311  (no secret)
    target = TARGETS[name]
    with target.prepared() as (one, seeds):
        for seed in seeds:
            one(seed)
            if target.changed:
                for _ in range(100):
                    one(target.changed(seed, source) or b"")
            damaged = bytearray(seed)
            for _ in range(3):
                damaged[source.randrange(len(damaged))] = source.randrange(256)
            one(bytes(damaged))
            one(seed[: source.randrange(len(seed))])
