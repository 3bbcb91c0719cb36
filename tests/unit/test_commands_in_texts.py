"""What texts mention is there: commands of pages, help and messages, settings, metrics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from refresh_reference import every_metric, every_setting
from support import command_lines, pages

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
SOURCES: Final = sorted([*ROOT.glob("client/sealcar/**/*.py"), *ROOT.glob("server/**/*.py")])
C_CLIENT: Final = ROOT.joinpath("client", "c", "sealcar.h").read_text()
DEPLOYED: Final = sorted(path for path in ROOT.glob("deploy/**/*") if path.is_file())
# "sealcar v1 …" are labels of the format at rest
_MENTIONED: Final = re.compile(r"`(sealcar (?!v1 |\{)[^`]+)`")


def wrong(lines: list[str], *, whole: bool = False) -> dict[str, str]:
    """Return what is wrong with lines of a shell, by line."""
    found = {}
    for line in lines:
        for words in command_lines.calls(line):
            # placeholders of a text: {name}, …, [OPTIONAL]
            plain = [word.strip("[]").replace("…", "x") for word in words if word != "…"]
            if reason := command_lines.wrong(plain, whole=whole):
                found[line] = reason
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_command_that_a_page_mentions_is_one(page: Path) -> None:
    assert wrong(_MENTIONED.findall(page.read_text())) == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_command_in_a_block_is_whole(page: Path) -> None:
    text = page.read_text()
    shells = [each for each in pages.blocks(text) if each.language in ("console", "sh")]
    lines = [line for block in shells for line in block.text.splitlines()]
    typed = [line for line in lines if line.startswith(("sealcar ", "$ "))]
    assert wrong(typed, whole=True) == {}


def test_a_command_that_a_message_or_a_comment_mentions_is_one() -> None:
    mentioned = {
        str(path): _MENTIONED.findall(re.sub(r'"\s*\n\s*f?"', "", path.read_text()))
        for path in SOURCES
    }
    assert sum(map(len, mentioned.values())) > 50
    assert {name: bad for name, lines in mentioned.items() if (bad := wrong(lines))} == {}


def test_a_command_that_a_deployment_mentions_is_one() -> None:
    lines = [
        found
        for path in DEPLOYED
        for found in re.findall(r"^#\s+(sealcar \w.*)$", path.read_text(), re.MULTILINE)
    ]
    assert lines
    assert wrong([line.split("  #")[0] for line in lines]) == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_metric_that_a_page_mentions_is_one(page: Path) -> None:
    known = set(re.findall(r"sealcar_[a-z_]+", every_metric()))
    mentioned = set(re.findall(r"`(sealcar_[a-z_]+)(?:\{[^`]*)?`", page.read_text()))
    others = {"sealcar_server", "sealcar_set_read", "sealcar_ep_target"}  # modules and functions
    functions = {name for name in mentioned if f"{name}(" in C_CLIENT}
    assert mentioned - known - others - functions == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_setting_that_a_page_mentions_is_one(page: Path) -> None:
    known = set(re.findall(r"^\| `([\w.]+)` \|", every_setting(), re.MULTILINE))
    sections = "|".join(sorted({name.split(".")[0] for name in known}))
    mentioned = set(re.findall(rf"`((?:{sections})\.[a-z_]+)(?: = [^`]*)?`", page.read_text()))
    endings = (".md", ".toml", ".json", ".sock", ".py")
    assert {name for name in mentioned - known if not name.endswith(endings)} == set()
