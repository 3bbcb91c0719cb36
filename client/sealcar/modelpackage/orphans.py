"""Remembers which directories a package stopped using, until a prune."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.modelpackage.parts import DIRECTORY
from sealcar.modelpackage.paths import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sealcar.modelpackage.package import Package
    from sealcar.modelpackage.values import Component, Variant


class Orphans:
    """Directories of removed variants and components.

    Attributes:
        prunable: those whose removal was saved.
    """

    def __init__(self) -> None:
        self.prunable: list[str] = []
        self._unsaved: list[str] = []

    def note(
        self, before: Package, after: Package, component: str | None, variant: str | None
    ) -> None:
        """Note what a change of a component, or of one variant of it, left without a user."""
        if component is None or before.location is None:
            return
        old, new = before.components.get(component), after.components.get(component)
        if old is None or old == new:
            return
        gone = list(_directories(old, variant))
        self._unsaved += gone

    def saved(self) -> None:
        """The changes were saved."""
        self.prunable += self._unsaved
        self._unsaved = []

    def left(self, kept: Iterable[str]) -> None:
        """A prune was made, and kept some."""
        self.prunable = list(kept)


def _directories(component: Component, variant: str | None) -> Iterator[str]:
    if variant is None and component.file is not None:
        yield str(component.directory)
    for name, item in component.variants.items():
        if variant in (None, name):
            yield _written(component, item)


def _written(component: Component, variant: Variant) -> str:
    # as it is written, links and all, for a prune to see them
    text = variant.body.get(DIRECTORY, variant.name)
    return joined(str(component.directory), str(text))
