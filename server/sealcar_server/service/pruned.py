"""What a prune removed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar_server.store.usage import freed_by_removing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar_server.store.usage import FileUse

MOST: Final = 10_000
_TOLD: Final = 3  # packages by name


@dataclass
class Pruned:
    """What went, or would go.

    Attributes:
        generations: name, version and number of each, newest first in its version.
        files: names of files that went, or would.
    """

    generations: list[tuple[str, str, int]] = field(default_factory=list)
    files: Counter[FileUse] = field(default_factory=Counter)

    def add(self, place: tuple[str, str, int], files: Iterable[FileUse]) -> None:
        """Count a generation."""
        self.generations.append(place)
        self.files.update(files)

    @property
    def told(self) -> str:
        """How many went and of which packages, in a sentence that stays short."""
        names = sorted({name for name, _, _ in self.generations})
        more = len(names) - _TOLD
        some = ", ".join(names[:_TOLD]) + (f" and {more} more" if more > 0 else "")
        count = len(self.generations)
        return f"{count} generation{'s' * (count != 1)} of {some} went"

    @property
    def freed(self) -> int:
        """Bytes of disk, as far as they can be told."""
        return freed_by_removing(self.files)

    @property
    def room(self) -> int:
        """How many more may be told at once."""
        return MOST - len(self.generations)
