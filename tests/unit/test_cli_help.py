"""The help of every command, and the manual's pages that are made of it, are complete."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import click
import pytest
from support import command_lines

from sealcar.cli import manual
from sealcar.cli.commands import sealcar

ROOT: Final = Path(__file__).parents[2]
ALL: Final = list(manual.described(sealcar))
NAMES: Final = [one.title for one in ALL]
each = pytest.mark.parametrize("one", ALL, ids=NAMES)


def help_of(one: manual.Described) -> str:
    return one.command.get_help(one.context)


def test_every_command_is_walked() -> None:
    assert {"sealcar", "sealcar-completion", "sealcar-keys-rotate", "sealcar-serve"} <= set(NAMES)
    assert len(NAMES) > 40


@each
def test_a_command_says_what_it_does_and_each_option_what_it_is_for(
    one: manual.Described,
) -> None:
    assert one.command.help
    assert one.command.help.strip().endswith((".", "`", ")"))
    # the list of commands has so much room, and cuts off what is longer
    assert one.title == "sealcar" or len(one.command.get_short_help_str(200)) <= 60
    bare = [
        param.opts
        for param in one.command.params
        if isinstance(param, click.Option) and not (param.help or "").strip()
    ]
    assert bare == []


@each
def test_each_argument_is_told_of_by_its_name(one: manual.Described) -> None:
    told = f"{one.command.help} {one.command.epilog}"
    for param in one.command.params:
        if isinstance(param, click.Argument) and param.metavar is None:
            assert str(param.name).upper() in told, param.name


@each
def test_a_command_has_an_example_that_is_one_and_says_where_exit_codes_are(
    one: manual.Described,
) -> None:
    text = help_of(one)
    assert "xit codes" in text
    if one.title == "sealcar":
        return
    shown = text.split("Examples:")[1].split("Exit codes")[0].splitlines()
    lines = [line.strip() for line in shown if line.strip()]
    found = [words for line in lines for words in command_lines.calls(line)]
    assert len(found) >= len(lines) > 0
    assert [wrong for words in found if (wrong := command_lines.wrong(words))] == []


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("man")
    return {path.name: path for path in manual.write(sealcar, folder / "man1")}


def test_every_command_has_a_page_with_the_sections_that_a_page_has(
    pages: dict[str, Path],
) -> None:
    assert set(pages) == {f"{name}.1" for name in NAMES}
    for name, path in pages.items():
        text = path.read_text()
        assert text.isascii(), name
        found = re.findall(r"^\.SH (.*)$", text, re.MULTILINE)
        assert found[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"], name
        wanted = {"OPTIONS"} | (
            {"EXAMPLES", "SEE ALSO"} if name != "sealcar.1" else {"EXIT STATUS"}
        )
        assert wanted <= set(found), name
        for other in re.findall(r"^\\fB(\S+)\\fR\(1\)$", text, re.MULTILINE):
            assert other.replace("\\-", "-") + ".1" in pages


def test_each_option_is_on_its_page(pages: dict[str, Path]) -> None:
    for one in ALL:
        text = pages[f"{one.title}.1"].read_text().replace("\\-", "-")
        for written, _ in one.options:
            assert f"\\fB{written}\\fR" in text


def test_no_line_of_a_text_is_taken_for_a_request(pages: dict[str, Path]) -> None:
    known = {".TH", ".SH", ".TP", ".PP", ".nf", ".fi"}
    for path in pages.values():
        lines = path.read_text().splitlines()
        assert {line.split()[0] for line in lines if line.startswith((".", "'"))} <= known
    assert manual._line(".onnx, a file") == "\\&.onnx, a file"
    assert manual._line("C:\\x é it's") == "C:\\ex \\[u00E9] it's"


MANDOC: Final = shutil.which("mandoc")
MAN: Final = shutil.which("man")


@pytest.mark.skipif(not MANDOC, reason="mandoc isn't installed")
def test_mandoc_finds_no_error_in_a_page(pages: dict[str, Path]) -> None:
    done = subprocess.run(
        [str(MANDOC), "-T", "lint", "-W", "error,stop", *map(str, pages.values())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(not MAN, reason="man isn't installed")
def test_man_finds_and_shows_a_page(pages: dict[str, Path]) -> None:
    folder = pages["sealcar.1"].parents[1]
    done = subprocess.run(
        [str(MAN), "sealcar-keys-rotate"],
        env={**os.environ, "MANPATH": str(folder), "MANPAGER": "cat", "MANWIDTH": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = re.sub(".\b", "", done.stdout)
    assert "sealcar keys rotate [OPTIONS] [ALIAS]" in shown


def test_pages_that_were_made_before_a_build_come_along_in_it() -> None:
    files = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["tool"]["hatch"]["build"]
    hook = ROOT.joinpath("hatch_build.py").read_text()
    (shared,) = re.findall(r'^SHARED = "(.+)"$', hook, re.MULTILINE)
    assert files["targets"]["sdist"]["artifacts"] == [f"/{shared}/man/man1/*.1"]
    made = re.search(r"^man:.*\n\t.* (\S+)$", ROOT.joinpath("Makefile").read_text(), re.MULTILINE)
    assert made
    assert made[1] == f"{shared}/man/man1"
