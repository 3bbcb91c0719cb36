"""What samples of loads come down to, and what decides which of them count."""

from __future__ import annotations

from dataclasses import replace

from sealcar.benching import figures, machine, sampling
from sealcar.benching.figures import Figures, Spread, alike, counted
from sealcar.benching.jobs import INFERENCE, MOMENTS, PARSED, PAYLOADS, READY, Job, Told, Traffic
from sealcar.benching.sampling import Sample
from sealcar.benching.usage import Counters, Memory
from sealcar.benching.watching import Closes

_JOB = Job("a:b", "/m.onnx", ("/w",), address=("p", "c", "v"), beside=True, dims={"n": 2})
_SPENT = Counters(10, 1, 1000, None)


def told(*moments: float, answer: tuple[float, ...] = (1.0,)) -> Told:
    reached = dict(zip((PARSED, READY, PAYLOADS, INFERENCE), moments, strict=False))
    return Told(100.0, reached, {}, 0, Traffic(1, 2, 3), answer, {})


def sample(ready: float, *, calm: bool = True, answer: tuple[float, ...] = (1.0,)) -> Sample:
    made = told(ready / 2, ready, ready, answer=answer)
    memory = {"client": (Memory(1, 2), Memory(5, 8))}
    return Sample(made, calm, 0.5, 1.0, {"client": _SPENT}, memory)


def test_a_job_and_what_is_told_travel_as_json() -> None:
    assert Job.parse(_JOB.text()) == _JOB
    one = told(1, 2)
    value = vars(one) | {"traffic": vars(one.traffic), "answer": [1.0]}
    assert Told.of(value) == one


def test_calm_samples_count_and_disturbed_ones_only_if_most_were() -> None:
    calm, noisy = sample(1.0), sample(9.0, calm=False)
    assert counted([calm, noisy, calm, calm], 3) == ((calm, calm, calm), 1)
    assert counted([noisy, calm, noisy, noisy], 3) == ((noisy, calm, noisy, noisy), 3)


def test_figures_are_least_median_and_most_and_ratios_of_medians() -> None:
    ours = Figures("ours", "warm", (sample(3.0), sample(1.0), sample(2.0)))
    plain = Figures("plain", "warm", (sample(4.0),))
    assert ours.spread(READY) == Spread(1.0, 2.0, 3.0)
    assert ours.ratio(READY, plain) == 0.5
    assert ours.spread(INFERENCE) is None
    assert ours.ratio(INFERENCE, plain) is None
    assert Spread.of([]) is None


def test_every_moment_is_reported_and_what_has_no_figure_says_why() -> None:
    first = sample(1.0)
    first = replace(first, told=replace(first.told, unseen={INFERENCE: "no such input"}))
    made = Figures("ours", "warm", (first,), watched=first).as_json(None)
    assert tuple(made["moments"]) == MOMENTS
    assert made["moments"][INFERENCE] == {"seconds": None, "ratio": None, "note": "no such input"}
    assert made["moments"][READY]["seconds"] == {"least": 1.0, "median": 1.0, "most": 1.0}
    assert made["processes"]["client"] == {
        "minor_faults": 10,
        "major_faults": 1,
        "logical_read": 1000,
        "physical_read": None,
        "private_idle": 1,
        "private_peak": 5,
        "proportional_idle": 2,
        "proportional_peak": 8,
        "least": {"minor_faults": 10, "major_faults": 1, "logical_read": 1000},
        "most": {"minor_faults": 10, "major_faults": 1, "logical_read": 1000},
    }


def test_what_an_application_needed_has_its_spread_and_its_ratio_to_plain() -> None:
    few, many = (
        replace(sample(1.0), counters={"client": Counters(faults, 0, 500, 7)})
        for faults in (10, 40)
    )
    ours = Figures("ours", "warm", (few, many), watched=few)
    plain = Figures("plain", "warm", (sample(1.0),), watched=sample(1.0))
    told = ours.as_json(plain)["processes"]["client"]
    assert (told["least"]["minor_faults"], told["most"]["minor_faults"]) == (10, 40)
    ratios = told["ratio"]
    assert (ratios["minor_faults"], ratios["logical_read"], ratios["private_peak"]) == (2.5, 0.5, 1)
    assert "physical_read" not in ratios, "plain doesn't know its own"


def test_a_way_that_failed_says_why_and_has_no_figures() -> None:
    made = Figures("ours", "cold", (), failed="no memory").as_json(None)
    assert made == {"way": "ours", "cache": "cold", "not_measured": "no memory"}


def test_other_answers_are_noticed_and_missing_ones_are_no_difference() -> None:
    one = Figures("plain", "warm", (sample(1.0, answer=(1.0, 1000.0)),))
    near = Figures("ours", "warm", (sample(1.0, answer=(1.0, 1001.0)),))
    other = Figures("ours", "warm", (sample(1.0, answer=(1.0, 900.0)),))
    assert alike(near, one) is True
    assert alike(other, one) is False
    assert alike(Figures("ours", "warm", (sample(1.0, answer=()),)), one) is None
    assert alike(Figures("ours", "warm", (sample(1.0, answer=(1.0,)),)), one) is False


def closes(last: dict[str, float], size: int) -> Closes:
    made = Closes(["/w"])
    made.last, made.sizes = last, {"/w": size}
    return made


def test_what_a_provider_read_is_there_when_it_closed_the_file() -> None:
    seen = sampling._with_payloads(told(1, 2), _JOB, closes({"/w": 101.5}, 900), _SPENT)
    assert seen.moments[PAYLOADS] == 1.5
    assert PAYLOADS not in seen.unseen


def test_what_was_mapped_isnt_there_when_the_file_was_closed() -> None:
    # fewer bytes were read than the file has: somebody mapped it
    for found in (closes({"/w": 101.5}, 2000), closes({}, 900)):
        seen = sampling._with_payloads(told(1, 2), _JOB, found, _SPENT)
        assert seen.moments[PAYLOADS] == seen.moments[READY]
        assert "when the session was ready" in seen.unseen[PAYLOADS]


def test_what_a_process_saw_itself_stands() -> None:
    one = told(1, 2, 1.7)
    assert sampling._with_payloads(one, _JOB, closes({"/w": 101.5}, 900), _SPENT) is one


def test_counters_are_differences_and_stay_unknown_where_they_are() -> None:
    assert Counters(15, 1, 1500, 7).since(_SPENT) == Counters(5, 0, 500, None)


def test_the_machine_is_described() -> None:
    described = machine.description()
    assert set(described) >= {"cpu", "kernel", "affinity", "python's compiler", "sealcar"}
    assert all(described.values())
    assert set(figures.ROLES) == {"client", "daemon"}
