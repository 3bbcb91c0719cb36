"""The pages of docs/ make a site, whose every link leads somewhere and which fetches nothing."""

from __future__ import annotations

import html.parser
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

from sealcar.cli import manual
from sealcar.cli.commands import sealcar

ROOT: Final = Path(__file__).parents[2]
PICTURES: Final = sorted(ROOT.joinpath("docs", "pictures").glob("*.svg"))
SVG: Final = "{http://www.w3.org/2000/svg}"
# what a browser fetches, or shows, without being asked
FETCHED: Final = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class Seen(html.parser.HTMLParser):
    """What a page of the site has."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.bare: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in FETCHED:
            self.fetched.append(values.get(FETCHED[tag]) or "")
        if tag == "img" and len(values.get("alt") or "") < 20:
            self.bare.append(values.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("mkdocs")), "build", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere(site: Path) -> None:
    # that links lead somewhere is what building strictly means
    listed = re.findall(r": (\S+\.md)$", ROOT.joinpath("mkdocs.yml").read_text(), re.MULTILINE)
    written = {page.name for page in ROOT.glob("docs/*.md")}
    assert {*written, "index.md", "changelog.md", "commands.md"} == set(listed)
    made = {page.stem for page in site.glob("*.html")} - {"404"}
    assert made == {Path(name).stem for name in listed}


def test_a_page_fetches_nothing_from_elsewhere_and_each_picture_says_what_it_shows(
    site: Path,
) -> None:
    for page in site.glob("*.html"):
        seen = Seen()
        seen.feed(page.read_text())
        assert [one for one in seen.fetched if re.match(r"(\w+:)?//", one)] == [], page.name
        assert seen.bare == [], page.name


def test_styles_fetch_nothing_from_elsewhere(site: Path) -> None:
    for style in site.rglob("*.css"):
        assert re.findall(r"url\(\s*[\"']?(?:https?:)?//", style.read_text()) == []


def test_every_command_is_on_a_page_of_the_site(site: Path) -> None:
    text = site.joinpath("commands.html").read_text()
    for one in manual.described(sealcar):
        assert f'id="{one.title}"' in text


def test_what_pages_refer_to_in_the_source_tree_is_in_the_site(site: Path) -> None:
    text = site.joinpath("servers.html").read_text()
    for target in re.findall(r'href="(source/[^"]+)"', text):
        assert site.joinpath(target).is_file()
    assert site.joinpath("source/deploy/servers/fastapi_app.py.txt").is_file()


def test_each_concept_has_one_picture_and_one_thing_to_try() -> None:
    concepts = ROOT.joinpath("docs", "concepts.md").read_text().split("\n## ")[1:]
    assert len(concepts) >= 9
    for concept in concepts:
        assert len(re.findall(r"^!\[[^]]+\]\(pictures/[\w-]+\.svg\)$", concept, re.MULTILINE)) == 1
        assert re.search(r"^```(console|python)$", concept, re.MULTILINE)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_says_what_it_shows_and_holds_nothing_that_runs(picture: Path) -> None:
    assert picture.stat().st_size < 16384
    root = ET.fromstring(picture.read_text())  # noqa: S314  (ours)
    assert root.tag == f"{SVG}svg"
    assert root[0].tag == f"{SVG}title"
    allowed = {"svg", "title", "desc", "style", "rect", "path", "line", "text"}
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= allowed
    assert "@media (prefers-color-scheme: dark)" in picture.read_text()
    assert "href" not in picture.read_text()
    # everything lies inside
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for text in root.iter(f"{SVG}text"):
        assert 0 < float(text.attrib["x"]) < width
        assert 0 < float(text.attrib["y"]) < height


def test_every_picture_is_used() -> None:
    pages = "".join(page.read_text() for page in ROOT.glob("docs/*.md"))
    assert [one.name for one in PICTURES if f"pictures/{one.name}" not in pages] == []
