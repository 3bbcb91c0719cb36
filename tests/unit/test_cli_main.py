"""The program `sealcar`: exit codes, errors in one line, help, parts that are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import click
import pytest

from sealcar.cli import commands, main, report
from sealcar.errors import DeniedError, NotAuthenticError, NotFoundError, Place, SealcarError

ROOT = Path(__file__).parents[2]


def raising(error: SealcarError) -> click.Command:
    def callback(**_: object) -> None:
        raise error

    return click.Command("fail", callback=callback, params=[click.Option(["--json"], is_flag=True)])


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    command = raising(request.param)
    monkeypatch.setattr(commands.Commands, "get_command", lambda *_: command)


PLACE = Place(phase="get", package="ocr", version="2")


@pytest.mark.parametrize(
    ("fails", "code"),
    [
        (NotFoundError("no such package", place=PLACE), 1),
        (DeniedError("needs the right to verify", place=PLACE), 5),
        (NotAuthenticError("its record was changed", place=PLACE), 6),
    ],
    indirect=["fails"],
)
@pytest.mark.usefixtures("fails")
def test_an_expected_error_is_one_line_and_its_exit_code(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["fail"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sealcar: get: ocr@2: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "fails", [NotFoundError("no such package", place=PLACE)], indirect=["fails"]
)
@pytest.mark.usefixtures("fails")
def test_with_json_an_error_is_one_object_on_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["fail", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["error"] == {
        "kind": "NotFoundError",
        "message": "no such package",
        "exit_code": 1,
        "place": {"phase": "get", "package": "ocr", "version": "2"},
        "retry_after": None,
        "request_id": None,
    }


@pytest.mark.parametrize("fails", [NotFoundError("named \x1b[31mred\n")], indirect=["fails"])
@pytest.mark.usefixtures("fails")
def test_a_name_in_an_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["fail"])
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert err.count("\n") == 1


def test_wrong_usage_is_exit_code_2_and_json_where_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["ls", "--nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert main.run(["ls", "--nonsense", "--json"]) == 2
    assert "nonsense" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_missing_part_is_exit_code_3_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    entry = EntryPoint("serve", "sealcar_server.cli.serve:serve", commands.GROUP)
    command = commands._without(entry, ModuleNotFoundError("no", name="structlog.stdlib"))
    with pytest.raises(SealcarError, match=r"pip install 'sealcar\[server\]'") as caught:
        command.main(["--config", "x", "--help"], standalone_mode=False)
    assert caught.value.exit_code == 3
    report.failure(caught.value, as_json=False)
    assert "structlog" in capsys.readouterr().err


def test_without_click_the_program_says_so(tmp_path: Path) -> None:
    tmp_path.joinpath("click.py").write_text("raise ModuleNotFoundError(name='click')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "sealcar.cli.main", "ls"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr == (
        "sealcar: the command line needs click; remedy: pip install 'sealcar[cli]'\n"
    )


def test_an_interruption_while_the_program_starts_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run(
        [sys.executable, "-m", "sealcar.cli.main", "ls"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sealcar: interrupted\n")


def test_the_installed_commands_are_those_of_pyproject() -> None:
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
    installed = {each.name: each.value for each in entry_points(group=commands.GROUP)}
    assert installed == project["entry-points"][commands.GROUP]


def test_help_names_every_command_and_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    out = capsys.readouterr().out
    for name in ("demo", "import", "init", "inspect", "ls", "serve", "status", "verify"):
        assert f"\n  {name} " in out
    for code in range(9):
        assert f"\n    {code}  " in out
    assert "sealcar completion bash" in out


@pytest.mark.parametrize("name", ["demo", "import", "inspect", "ls", "status", "verify"])
def test_each_command_explains_itself_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"sealcar {name}" in out.split("Examples:")[1]
    assert "--json" in out


def test_sizes_are_in_words() -> None:
    assert [report.size(n) for n in (0, 999, 1000, 3_163_737, 5e15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "3.2 MB",
        "5000.0 TB",
    ]


def test_json_holds_nothing_that_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "é\x1b[31m\x9b31m\u2028"
    report.emit({"description": hostile})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"description": hostile}
    assert printed.isascii()
    assert "\x1b" not in printed
