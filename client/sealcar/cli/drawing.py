"""Packages drawn as trees, whether they lie in a plain directory or sealed in a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from sealcar.cli import report

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN: Final = 48  # characters of a compatibility string, which may have thousands


@dataclass(frozen=True)
class Node:
    """One line, and what is below it."""

    text: str
    below: tuple[Node, ...] = ()


def draw(root: Node) -> None:
    """Print a tree. Nothing of it needs colour, and nothing is cut."""
    Console(highlight=False, soft_wrap=True).print(_tree(Tree(_text(root.text)), root.below))


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
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _tree(tree: Tree, nodes: Iterable[Node]) -> Tree:
    for node in nodes:
        _tree(tree.add(_text(node.text)), node.below)
    return tree


def _text(text: str) -> Text:
    return Text(report.plain(text))
