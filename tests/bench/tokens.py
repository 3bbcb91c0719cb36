"""A language model until it says its first token, by onnxruntime-genai, plain and sealed.

It reads files, or a model's bytes from memory; it has no callbacks. So its weights are inside the
model, and the model is what the daemon gives.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import tokens_loading, tokens_model
from bench.loads import TESTS, rows
from bench.parts import Part, Setting
from bench.rows import Row

from sealcar.benching import rounds, stage, subjects, trial
from sealcar.benching.jobs import INFERENCE, PARSED, PAYLOADS, READY

if TYPE_CHECKING:
    from sealcar.benching.sampling import Way
    from sealcar.benching.stage import Daemon
    from sealcar.benching.subjects import Subject

SAID: Final = "first token"
MADE: Final = "model made"
_STAGES: Final = {READY: MADE, INFERENCE: SAID}
_ENVIRONMENT: Final = Path(__file__).parents[2] / ".venv-bench"
_PACKAGE: Final = "onnxruntime_genai"
_UNSEEN: Final = {
    PARSED: "not measured: onnxruntime-genai makes the session by itself, and tells nobody",
    PAYLOADS: "nothing lies beside the model",
}
_MEBIBYTES: Final = 128
_QUICK: Final = 4
_MISSING: Final = "not measured: onnxruntime-genai isn't in the bench's own environment"


def site() -> str:
    """Return where onnxruntime-genai is installed; empty: nowhere."""
    found = _ENVIRONMENT.glob(f"lib/python*/site-packages/{_PACKAGE}")
    return next((str(each.parent) for each in found), "")


def _run(setting: Setting) -> list[Row]:
    if not site():
        return [Row(trial.PLAINLY, SAID, skipped=_MISSING)]
    model = tokens_model.write(setting.folder, _QUICK if setting.quick else _MEBIBYTES)
    subject = subjects.find(model, None, None, keep_inline=True)
    plan = rounds.Plan(setting.rounds, cold=not setting.quick, quick=setting.quick)
    with stage.throwaway(subject, setting.folder, lambda _step: None) as daemon:
        ways = _ways(subject, daemon)
        outcome = trial.run(subject, daemon, ways, plan, lambda way, *_: setting.say(f"    {way}"))
    if outcome.differ():
        raise AssertionError(f"{outcome.differ()} said another token")
    return [_renamed(row) for each in outcome.figures for row in rows(each, subject)]


def _renamed(row: Row) -> Row:
    if not row.samples and row.stage in _UNSEEN:
        return replace(row, skipped=_UNSEEN[row.stage])
    return replace(row, stage=_STAGES.get(row.stage, row.stage))


def _ways(subject: Subject, daemon: Daemon) -> list[Way]:
    """Return those of the usual ways that there are, with loaders of our own."""
    usual = {way.name: way for way in trial.ways(subject, daemon, trial.Wish())}
    loaders = {
        trial.PLAINLY: tokens_loading.PLAIN,
        trial.PRIVATE: tokens_loading.SEALED,
        trial.BY_TMPFS: tokens_loading.TMPFS,
    }
    extra = {tokens_loading.SITE: site()}
    return [
        replace(usual[name], path=TESTS, job=replace(usual[name].job, loader=loader, extra=extra))
        for name, loader in loaders.items()
        if name in usual
    ]


def _seconds(setting: Setting) -> float:
    return 5 + 3 * 1.5 * (1 if setting.quick else 2 * (setting.rounds + 1))


PARTS: Final = (Part("first-token", "a language model until its first token", _seconds, _run),)
