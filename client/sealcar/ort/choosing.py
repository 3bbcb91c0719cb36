"""Which variant of a component suits a session: the one that ONNX Runtime itself would choose.

The rules are those of its `ModelPackageContext.select_component`, which exists from 1.32 on; here
they hold for every runtime. Only what a package says of its variants is looked at, so nothing is
decrypted.

1. The first provider of the session options counts, and no other; without any it is the CPU's.
2. `ep` must be its name, to the letter.
3. `device`, if set, must be a kind of device that the options have it run on, whatever the case.
4. The provider judges the compatibility string: optimal counts 100, better compiled anew 50,
   nothing to say 0; what it doesn't support, or fails to judge, is out.
5. The highest score wins; of equal ones the first that the package declares.

ONNX Runtime never chooses a variant without `ep`, as `sealcar import model.onnx` makes one. Here it
is taken if nothing else fits and it is the only such one: any provider can run it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidRequestError, RuntimeSupportError
from sealcar.names import harmless, shown
from sealcar.ort import compatibility
from sealcar.ort.configured import configured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealcar.ort.configured import Configured
    from sealcar.ort.runtime import SessionOptions
    from sealcar.ort.sessions import Provider

_FOR_ANY: Final = "it is for no provider in particular, which is taken only if nothing else fits"


@dataclass(frozen=True)
class Offer:
    """What a package says of a variant.

    Attributes:
        barred: why it is out of the question; empty: it isn't.
    """

    variant: str
    ep: str = ""
    device: str = ""
    compatibility: str = ""
    barred: str = ""


@dataclass(frozen=True)
class Candidate:
    """What became of a variant in a selection.

    Attributes:
        score: None: it was rejected.
        reason: why it has that score, and, unless it won, what was better.
    """

    variant: str
    score: int | None
    reason: str


@dataclass(frozen=True)
class Choice:
    """The variant that was chosen.

    Attributes:
        variant: its name.
        ep: provider that it was chosen for; empty: all variants are for any provider.
        score: what it was worth.
        fallback: it names no provider, so that ONNX Runtime itself wouldn't have chosen it.
        candidates: all variants of the component, as the package declares them.
    """

    variant: str
    ep: str
    score: int
    fallback: bool
    candidates: tuple[Candidate, ...]


def choose(
    offers: Sequence[Offer],
    session_options: SessionOptions,
    providers: Sequence[Provider] | None = None,
) -> Choice:
    """Choose among the variants of a component.

    Raises:
        RuntimeSupportError: no variant fits, or no session at all can be made with these options.
        InvalidRequestError: several variants fit any provider.
    """
    wanted = None
    if any(offer.ep for offer in offers):
        wanted = configured(session_options, providers)
    candidates = [_candidate(offer, wanted) for offer in offers]
    best = max((each.score for each in candidates if each.score is not None), default=None)
    winner = next((each for each in candidates if best is not None and each.score == best), None)
    fallback = winner is None
    if winner is None:
        winner = _fallback(offers, candidates, wanted)
    return Choice(
        winner.variant,
        wanted.first if wanted else "",
        winner.score or 0,
        fallback,
        tuple(_compared(each, winner) for each in candidates),
    )


def _candidate(offer: Offer, wanted: Configured | None) -> Candidate:
    score, reason = _judge(offer, wanted)
    return Candidate(offer.variant, score, reason)


def _judge(offer: Offer, wanted: Configured | None) -> tuple[int | None, str]:
    """Return a variant's score, or None, and why."""
    if offer.barred:
        return None, offer.barred
    if not offer.ep or wanted is None:
        return None, _FOR_ANY
    if offer.ep != wanted.first:
        return None, f"it is for {shown(offer.ep)}; the session begins with {shown(wanted.first)}"
    if offer.device and offer.device.lower() not in wanted.kinds:
        kinds = ", ".join(wanted.kinds) or "no kind of device that is known"
        return None, f"it is for device {shown(offer.device)}; the session has {kinds}"
    if not offer.compatibility:  # then devices don't matter, and needn't be found out
        verdict = compatibility.judge((), "")
    else:
        verdict = compatibility.judge(wanted.devices_for(offer.device), offer.compatibility)
    return verdict.score, verdict.reason


def _fallback(
    offers: Sequence[Offer], candidates: Sequence[Candidate], wanted: Configured | None
) -> Candidate:
    """Return the only variant that any provider can run."""
    free = [
        candidate
        for offer, candidate in zip(offers, candidates, strict=True)
        if not offer.ep and not offer.barred
    ]
    if len(free) == 1:
        return free[0]
    if free:
        names = harmless(", ".join(each.variant for each in free))
        raise InvalidRequestError(f"several variants fit any provider: {names}; name the variant")
    reasons = "; ".join(f"{shown(each.variant)}: {each.reason}" for each in candidates)
    ep = shown(wanted.first) if wanted else "any provider"
    raise RuntimeSupportError(
        f"no variant fits {ep}, with which the session begins ({reasons or 'there is none'}); "
        "configure another provider, or name the variant"
    )


def _compared(candidate: Candidate, winner: Candidate) -> Candidate:
    """Return a candidate with what was better, if that isn't said yet."""
    if candidate is winner or candidate.score is None:
        return candidate
    better = "is as good, and declared earlier"
    if candidate.score != winner.score:
        better = "has a higher score"
    return replace(
        candidate, reason=f"{candidate.reason}; variant {shown(winner.variant)} {better}"
    )
