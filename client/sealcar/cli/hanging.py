"""What hangs on which key, as tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sealcar.cli import tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.custody import Hanging


def show_versions(found: Iterable[Hanging]) -> None:
    """Print what hangs on each version of each key, in numbers."""
    newest, older, store = Counter[tuple[str, str]](), Counter[tuple[str, str]](), set()
    for each in found:
        key = (each.kek_alias or "?", each.kek_version or "?")
        if not each.package:
            store.add(key)
        elif each.newest:
            newest[key] += 1
        else:
            older[key] += 1
    tables.show(
        ["key", "version", "packages", "older generations", "store key"],
        [
            [*key, newest[key], older[key], "yes" if key in store else ""]
            for key in sorted({*newest, *older, *store})
        ],
    )


def show_generations(found: Iterable[Hanging]) -> None:
    """Print every generation with the version that it hangs on."""
    tables.show(
        ["package", "version", "generation", "", "key", "key version"],
        [
            [
                each.package,
                each.version,
                each.generation,
                "newest" if each.newest else "",
                each.kek_alias,
                each.kek_version or each.problem,
            ]
            for each in found
            if each.package
        ],
    )
