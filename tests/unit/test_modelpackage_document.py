"""What docs/model-packages.md shows works, and it lists every known difference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sealcar.modelpackage import Limits

if TYPE_CHECKING:
    import pytest

DOCUMENT = (Path(__file__).parents[2] / "docs" / "model-packages.md").read_text()


def test_the_examples_run_from_first_to_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    # what loads a model needs one, and a runtime
    offline = [example for example in examples if "sealcar.ort" not in example]
    assert (len(offline), len(examples)) == (4, 5)
    exec("\n".join(offline), {})  # noqa: S102  (our own text)
    assert (tmp_path / "ocr-copy" / "manifest.json").is_file()


def test_the_limits_are_the_ones_it_names() -> None:
    limits = Limits()
    assert limits.document_bytes == 16 << 20
    for number in (limits.components, limits.variants, limits.tree_entries, limits.tree_depth):
        assert f"{number:,} " in DOCUMENT
    assert f"{limits.depth} levels" in DOCUMENT


def test_every_difference_that_the_comparisons_know_is_listed() -> None:
    oracle = Path(__file__).parents[1] / "support" / "package_oracle.py"
    table = re.search(r"^DIFFERENCES = \{\n(.*?)^\}", oracle.read_text(), re.DOTALL | re.MULTILINE)
    assert table
    names = re.findall(r'^    "(\w+)": ', table[1], re.MULTILINE)
    assert len(names) > 15
    assert [name for name in names if f"| `{name}` |" not in DOCUMENT] == []
