"""The bench's own ways of loading, and the rows that loads come down to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import onnx
import pytest
from bench import loads, loads_in_process, loads_models, registry, tokens, tokens_model
from bench.parts import Setting
from bench.rows import as_json
from cryptography.exceptions import InvalidTag

from sealcar import publish
from sealcar.benching import trial
from sealcar.benching.clocks import Clock
from sealcar.benching.figures import Figures
from sealcar.benching.jobs import INFERENCE, MOMENTS, PARSED, PAYLOADS, READY, Told, Traffic
from sealcar.benching.sampling import Sample
from sealcar.benching.subjects import Subject
from sealcar.benching.usage import Counters, Memory
from sealcar.transfer.scopes import ScopeName


def sample(seconds: float) -> Sample:
    moments = {PARSED: seconds / 2, PAYLOADS: seconds, READY: seconds}
    unseen = {INFERENCE: "no inputs", PAYLOADS: "seen late"}
    told = Told(0.0, moments, unseen, 4096, Traffic(10, 20, 30), (), {"ep": "CPU"})
    spent = Counters(7, 0, 100, 50)
    memory = {"client": (Memory(1, 1), Memory(5, 9))}
    return Sample(
        told, calm=True, prepared=0.3, stayed=0.25, counters={"client": spent}, memory=memory
    )


def figures(way: str, cache: str, *seconds: float) -> Figures:
    taken = tuple(map(sample, seconds))
    return Figures(way, cache, taken, disturbed=1, watched=taken[0] if taken else None)


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"model")
    return Subject(model, "main", "onnx", model, (), {"m.onnx": ("model", 5)})


def test_a_row_for_each_moment_compared_with_plain_in_the_same_cache(subject: Subject) -> None:
    made = as_json(
        [
            *loads.rows(figures(trial.PLAINLY, "cold", 2.0), subject),
            *loads.rows(figures(trial.PRIVATE, "cold", 1.0, 3.0, 2.0), subject),
        ]
    )
    rows: dict[str, Any] = {row["stage"]: row for row in made if "private" in row["way"]}
    assert list(rows) == [loads.PREPARED, *MOMENTS]
    ready = rows[READY]
    assert (ready["min"], ready["median"], ready["max"], ready["ratio"]) == (1.0, 2.0, 3.0, 1.0)
    assert ready["way"] == "sealcar, private, cold"
    assert ready["traffic"] == {"copied": 110, "borrowed": 20, "mapped": 30}
    counted = {"minor_faults": 7, "major_faults": 0, "logical_read": 100, "physical_read": 50}
    assert ready["processes"]["client"] == {
        "private": 5,
        "proportional": 9,
        **counted,
        "least": counted,
        "most": counted,
    }
    assert ready["client_ratios"]["logical_read"] == 1.0
    assert ready["conditions"]["cache"] == "cold; 25% of a file stayed"
    assert ready["conditions"]["ep"] == "CPU"
    assert len(ready["conditions"]["model"]) == len("m.onnx ") + 64
    assert rows[PAYLOADS]["conditions"]["how it was seen"] == "seen late"
    assert rows[INFERENCE]["skipped"] == "no inputs"


def test_a_way_that_failed_is_a_row_that_says_why(subject: Subject) -> None:
    failed = Figures(trial.PRIVATE, "warm", (), failed="no memory")
    (row,) = loads.rows(failed, subject)
    assert row.skipped == "no memory"


def test_what_the_application_seals_itself_it_opens_itself(tmp_path: Path) -> None:
    source, sealed = tmp_path / "s", tmp_path / "sealed"
    source.mkdir()
    sealed.mkdir()
    model = loads_models.external(source, 4)
    with publish.plan(model, name="bench") as planned:
        payloads = {one.name: b"".join(one.chunks()) for one in planned.payloads}
        for one in planned.payloads:
            loads_in_process.seal(one, sealed)
    scope = loads_in_process._Scope(ScopeName("bench", "main", "onnx", "1", 1), sealed, Clock())
    assert {one.name: one.size for one in scope.payloads} == {
        name: len(data) for name, data in payloads.items()
    }
    for name, data in payloads.items():
        assert scope.read(name) == data
    path = next(each for each in sealed.iterdir() if "initializers" in each.name)
    with path.open("r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(b"changed")
    with pytest.raises(InvalidTag):
        scope.read("weights.bin")


def test_the_language_model_is_one_and_its_settings_fit(tmp_path: Path) -> None:
    path = tokens_model.write(tmp_path, 1)
    model = onnx.load(path)
    onnx.checker.check_model(model)
    decoder = json.loads((tmp_path / tokens_model.SETTINGS).read_text())["model"]["decoder"]
    names = {each.name for each in (*model.graph.input, *model.graph.output)}
    wanted = {**decoder["inputs"], **decoder["outputs"]}
    assert {each.replace("%d", "0") for each in wanted.values()} == names


def test_what_isnt_there_is_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "site", lambda: "")
    (row,) = tokens._run(Setting(Path()))
    assert "onnxruntime-genai" in row.skipped
    form = loads_models.Form("x", "x", loads_models.inline, 1, missing="no wheel")
    (row,) = loads.run(Setting(Path()), form)
    assert row.skipped == "no wheel"


def test_every_form_is_a_part() -> None:
    names = {part.name for part in registry.PARTS}
    assert {"load-onnx", "load-inline", "load-ort", "load-compiled", "first-token"} <= names
