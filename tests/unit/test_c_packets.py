"""Whatever comes, the C client touches nothing that isn't its own, and takes no half payload.

The program is built with the address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import random
import subprocess
from typing import TYPE_CHECKING, Final

from fuzz.c_packets import seeds
from support import c_programs
from support.daemon import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

_MUTATIONS: Final = 10_000


def _mutated(chance: random.Random) -> Iterator[bytes]:
    originals = seeds()
    for _ in range(_MUTATIONS):
        data = bytearray(chance.choice(originals))
        # what says how long something is lies at the beginning more often than not
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = min(int(chance.expovariate(1 / 40)), len(data) - 1)
            kind = chance.randrange(3)
            if kind == 0:
                data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            elif kind == 1:
                data[at:at] = chance.randbytes(chance.randrange(1, 12))
            else:
                del data[at : at + chance.randrange(1, 12)]
            data = data or bytearray(b"\0")
        yield bytes(data)


def test_no_packet_makes_the_c_client_touch_what_is_not_its_own() -> None:
    chance = random.Random(1)  # noqa: S311  (a test that can be repeated)
    inputs = [*seeds(), *_mutated(chance)]
    done = subprocess.run(
        [c_programs.program("c_packets", sanitized=True, inside=True)],
        input=b"".join(len(each).to_bytes(4, "little") + each for each in inputs),
        env=environment({"ASAN_OPTIONS": "exitcode=99:detect_leaks=1"}),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
