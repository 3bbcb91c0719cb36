"""Packages drawn as trees, whether they lie in a plain directory or sealed in a store."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from sealcar.cli import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SHOWN: Final = 48  # characters of a compatibility string, which may have thousands


class _Guides(NamedTuple):
    """What leads from a line to those below it."""

    branch: str
    last: str
    through: str
    nothing: str


_LINES: Final = _Guides("├── ", "└── ", "│   ", "    ")
_ASCII: Final = _Guides("|-- ", "`-- ", "|   ", "    ")


@dataclass(frozen=True)
class Node:
    """One line, and what is below it."""

    text: str
    below: tuple[Node, ...] = ()


def draw(root: Node) -> None:
    """Print a tree. Nothing of it needs colour, and nothing is cut."""
    guides = _LINES if _prints(_LINES) else _ASCII
    click.echo("\n".join([report.plain(root.text), *_lines(root.below, guides)]))


def component(name: str, about: str, variants: Iterable[Node]) -> Node:
    """Return a component and its variants."""
    return Node(f"{name}  ({about})" if about else name, tuple(variants))


def variant(name: str, made_for: Iterable[str | None], about: str, below: Iterable[Node]) -> Node:
    """Return a variant.

    Args:
        name: of the variant.
        made_for: execution provider, device and compatibility, as far as they are there.
        about: what else there is to say.
        below: its files.
    """
    fits = ", ".join(_short(part) for part in made_for if part)
    return Node(f"{name}  ({fits or 'no provider named'})  {about}", tuple(below))


def file(name: str, size: int, *about: str) -> Node:
    """Return a file or payload."""
    return Node("  ".join([name, *about, report.size(size)]))


def assets(found: Iterable[tuple[str, Iterable[Node]]]) -> tuple[Node, ...]:
    """Return the branch of shared assets; nothing if there are none."""
    below = tuple(Node(uri, tuple(files)) for uri, files in found)
    return (Node("shared assets", below),) if below else ()


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _lines(nodes: tuple[Node, ...], guides: _Guides) -> Iterator[str]:
    for node in nodes:
        last = node is nodes[-1]
        yield (guides.last if last else guides.branch) + report.plain(node.text)
        before = guides.nothing if last else guides.through
        yield from (before + line for line in _lines(node.below, guides))


def _prints(guides: _Guides) -> bool:
    try:
        "".join(guides).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
