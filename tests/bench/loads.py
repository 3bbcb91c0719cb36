"""A model until it answers: from files, sealed, through tmpfs, and with the key in the process.

Measured with what `sealcar bench` measures a user's model with; here the models are made, and one
way is added which the client can't have, since it holds no cipher.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import loads_in_process
from bench.loads_models import forms
from bench.parts import Part, Setting
from bench.rows import Row, Traffic, Usage

from sealcar import publish
from sealcar.benching import machine, rounds, stage, subjects, trial
from sealcar.benching.jobs import MOMENTS, PARSED, READY
from sealcar.benching.sampling import CLIENT, Way

if TYPE_CHECKING:
    from bench.loads_models import Form

    from sealcar.benching.figures import Figures
    from sealcar.benching.subjects import Subject

IN_PROCESS: Final = "decrypted in the process, the key in it"
PREPARED: Final = "process ready to load"
TESTS: Final = str(Path(__file__).parents[1])
_QUICK: Final = 4
_NOTHING_SHARED: Final = "weights aren't beside the model in this form: nothing to share"


def run(setting: Setting, form: Form) -> list[Row]:
    """Measure a model of a form."""
    if form.missing:
        return [Row(trial.PLAINLY, READY, skipped=form.missing)]
    with tempfile.TemporaryDirectory(dir=setting.folder, prefix="m-") as folder:
        model = form.make(Path(folder), _mebibytes(setting, form))
        return _measured(form, subjects.find(model, None, None), Path(folder), setting)


def _mebibytes(setting: Setting, form: Form) -> int:
    return _QUICK if setting.quick else min(form.most, max(_QUICK, setting.size >> 21))


def _measured(form: Form, subject: Subject, folder: Path, setting: Setting) -> list[Row]:
    plan = rounds.Plan(setting.rounds, cold=not setting.quick, quick=setting.quick)

    def watch(way: str, done: int, total: int) -> None:
        setting.say(f"    {way} ({done + 1} of about {total})")

    with stage.throwaway(subject, folder, lambda _step: None) as daemon:
        found = trial.ways(subject, daemon, form.wish)
        private = next(way for way in found if way.name == trial.PRIVATE)
        found.append(_in_process(subject, private, folder / "keyed"))
        outcome = trial.run(subject, daemon, found, plan, watch)
    if outcome.differ():
        raise AssertionError(f"{form.name}: {outcome.differ()} answered something else")
    made = [row for each in outcome.figures for row in rows(each, subject)]
    return made + [
        Row(name, READY, skipped=_NOTHING_SHARED)
        for name in (trial.SHARED_FIRST, trial.SHARED_NEXT)
        if not subject.weights
    ]


def _in_process(subject: Subject, private: Way, folder: Path) -> Way:
    """Seal the payloads under a key that the application has, and return its way."""
    folder.mkdir()
    with publish.plan(subject.source, name=subjects.NAME) as planned:
        for payload in planned.payloads:
            loads_in_process.seal(payload, folder)
    extra = {**private.job.extra, loads_in_process.FOLDER: str(folder)}
    job = replace(private.job, loader=loads_in_process.LOADER, extra=extra)
    return Way(IN_PROCESS, job, path=TESTS, files=tuple(folder.iterdir()))


def rows(figures: Figures, subject: Subject) -> list[Row]:
    """Return a row of each moment of a way."""
    cold = ", cold" if figures.cache == "cold" else ""
    way, plain = (f"{name}{cold}" for name in (figures.way, trial.PLAINLY))
    if not figures.samples:
        return [Row(way, READY, skipped=figures.failed)]
    told = figures.samples[-1].told
    # what a process reads from files is copied out of the page cache
    read = figures.process(CLIENT)["logical_read"] or 0
    row = Row(
        way,
        "",
        size=subject.size,
        disturbed=figures.disturbed,
        reference=plain,
        processes={role: _usage(figures, role) for role in figures.samples[0].counters},
        traffic=Traffic(told.traffic.copied + read, told.traffic.borrowed, told.traffic.mapped),
        conditions=_conditions(figures, subject),
    )
    prepared = tuple(each.prepared for each in figures.samples)
    return [
        replace(row, stage=PREPARED, samples=prepared, size=0),
        *(_moment(row, figures, moment) for moment in MOMENTS),
    ]


def _moment(row: Row, figures: Figures, moment: str) -> Row:
    seconds = [each.told.moments.get(moment) for each in figures.samples]
    samples = tuple(each for each in seconds if each is not None)
    note = figures.unseen(moment)
    if not samples:
        return replace(row, stage=moment, skipped=note or "not measured")
    conditions = {**row.conditions, **({"how it was seen": note} if note else {})}
    # bytes a second mean nothing of what is parsed before the bytes come
    size = 0 if moment == PARSED else row.size
    return replace(row, stage=moment, samples=samples, conditions=conditions, size=size)


def _usage(figures: Figures, role: str) -> Usage:
    found = figures.process(role)
    least, most = figures.extremes(role)
    return Usage(
        found["private_peak"],
        found["proportional_peak"],
        found["minor_faults"],
        found["major_faults"],
        found["logical_read"],
        found["physical_read"],
        least,
        most,
    )


def _conditions(figures: Figures, subject: Subject) -> dict[str, str]:
    digests = ", ".join(f"{name} {digest}" for name, digest in subject.digests().items())
    described = machine.description()
    told = figures.samples[-1].told
    stayed = max(each.stayed for each in figures.samples)
    cache = "warm" if figures.cache == "warm" else f"cold; {stayed:.0%} of a file stayed"
    return {
        "cache": cache,
        "affinity": described["affinity"],
        "native part's compiler": described["native part's compiler"],
        "model": digests,
        "mapped and touched only when the session was ready": str(told.untouched),
        **told.runtime,
    }


def _seconds(setting: Setting, form: Form) -> float:
    """Return about how long it takes: every load begins with a process that imports the runtime."""
    ways, each = 7, 0.8 + _mebibytes(setting, form) / 256
    return 4 + ways * each * (1 if setting.quick else 2 * (setting.rounds + 1))


PARTS: Final = tuple(
    Part(
        f"load-{form.word}",
        f"a model until it answers: {form.name}",
        partial(_seconds, form=form),
        partial(run, form=form),
    )
    for form in forms()
)
