"""Decisions of ONNX Runtime 1.32 among variants, which we make with every runtime."""

from __future__ import annotations

from random import Random
from typing import Final

from support import eps, verdicts

from sealcar.errors import InvalidRequestError, RuntimeSupportError
from sealcar.ort.choosing import Offer, choose

CPU: Final = "CPUExecutionProvider"
SEED: Final = 20
EPS: Final = (*[verdicts.EP] * 6, verdicts.EP.upper(), CPU, "")
DEVICES: Final = ("", "", "", "cpu", "gpu", "NPU", "tpu")
ANSWERS: Final = ("optimal", "recompile", "unknown", "unsupported", "error")
TEXTS: Final = (
    *("", "", *ANSWERS, *ANSWERS),
    *("cpu:optimal,gpu:recompile,npu:unsupported", "npu:optimal", "count:1", "count:3"),
)
# number of the variant that the runtime itself chose, or "-": test_select_oracle.py compares more
CHOSEN: Final = (
    "-03000-0-000220---1400010-3--221-2033100-310-213-3033101--0302-5-0-21001-1132000"
    "-022---3204102-0-10-2331-2-1-112-3-32420-2100320-012010---201103-20-3-11-0--3020"
)


def packages() -> list[list[Offer]]:
    random = Random(SEED)  # noqa: S311  (data of a test)
    return [
        [
            Offer(str(n), random.choice(EPS), random.choice(DEVICES), random.choice(TEXTS))
            for n in range(random.randint(1, 6))
        ]
        for _ in range(160)
    ]


def decision(offers: list[Offer], kinds: bool) -> str:  # noqa: FBT001  (which options)
    options = verdicts.options() if kinds else eps.quiet_options()
    try:
        chosen = choose(offers, options)
    except (InvalidRequestError, RuntimeSupportError):
        return "-"
    return "-" if chosen.fallback else chosen.variant


def test_the_runtime_s_own_decisions_are_made_with_every_runtime() -> None:
    every = packages()
    made = "".join(decision(offers, bool(n % 8)) for n, offers in enumerate(every))
    assert made == CHOSEN
