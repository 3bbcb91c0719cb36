"""What the site has beside docs/: README, changelog, files that pages refer to, all commands.

So each text is in one place only, and links that work in the source tree work in the site too.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File

from sealcar.cli import manual
from sealcar.cli.commands import sealcar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parent
# pages of the source tree that are pages of the site
PAGES: Final = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
SOURCES: Final = "source"  # folder of the site with all other files
_LINK: Final = re.compile(r"\[([^]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_HINT: Final = "sealcar COMMAND --help"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what isn't in docs/."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text()
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "commands.md", content=commands()))
    pages = [(ROOT / source, ROOT) for source in PAGES]
    pages += [
        (Path(file.abs_src_path), ROOT / "docs")
        for file in files.documentation_pages()
        if file.abs_src_path
    ]
    wanted = {target for path, folder in pages for target in _sources(path.read_text(), folder)}
    for target in sorted(wanted):
        text = (ROOT / target).read_text()
        files.append(File.generated(config, f"{SOURCES}/{target}.txt", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links lead to where things are in the site."""
    del config, files
    folder = ROOT if page.file.src_uri in PAGES.values() else ROOT / "docs"
    return _LINK.sub(lambda found: _link(found, folder), markdown)


def _link(found: re.Match[str], folder: Path) -> str:
    label, target, anchor = found[1], found[2], found[3] or ""
    path = _path(target, folder)
    if path is None or not (ROOT / path).exists():
        return found[0]  # checked by mkdocs itself
    if path in PAGES:
        return f"[{label}]({PAGES[path]}{anchor})"
    if path.startswith("docs/"):
        return f"[{label}]({path.removeprefix('docs/')}{anchor})"
    if (ROOT / path).is_dir():
        return f"`{path}`" if label in (path, f"{path}/") else f"{label} (`{path}`)"
    return f"[{label}]({SOURCES}/{path}.txt)"


def _sources(text: str, folder: Path) -> Iterator[str]:
    for found in _LINK.finditer(text):
        path = _path(found[2], folder)
        if path and path not in PAGES and not path.startswith("docs/") and (ROOT / path).is_file():
            yield path


def _path(target: str, folder: Path) -> str | None:
    """Return where a link leads, relative to the source tree; None: out of it."""
    path = (folder / target).resolve()
    return str(PurePosixPath(path.relative_to(ROOT))) if path.is_relative_to(ROOT) else None


def commands() -> str:
    """Return the page of all commands, as their help has it."""
    lines = ["# Commands", "", f"What `{_HINT}` says, and the pages of `man sealcar`.", ""]
    for one in manual.described(sealcar):
        lines += [f"## {' '.join(one.words)}", "", "```text"]
        lines += [f"{' '.join(one.words)} {one.usage}", "```", ""]
        lines += _paragraphs(one)
        if one.options:
            lines += ["| option | what it does |", "|---|---|"]
            lines += [
                f"| {_cell(f'`{written}`')} | {_cell(what)} |" for written, what in one.options
            ]
        lines.append("")
    return "\n".join(lines)


def _paragraphs(one: manual.Described) -> Iterator[str]:
    for paragraph in one.paragraphs:
        lines = paragraph.strip("\n").split("\n")
        if lines[0].strip() == "\b":
            yield from ["```text", *lines[1:], "```", ""]
        else:
            yield from [_cell(" ".join(paragraph.split())), ""]


def _cell(text: str) -> str:
    """Write text so that nothing of it is markup but what stands as code."""
    parts = " ".join(text.split()).replace("|", "&#124;").split("`")
    parts[::2] = [re.sub(r"([*_\[])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)
