"""Random trees have the same hash here and in ONNX Runtime's own library."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import package_oracle

from sealcar import modelpackage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not package_oracle.AVAILABLE, reason="came with ONNX Runtime 1.32")

names = st.one_of(
    st.sampled_from([b"a", b"a-b", b"a.b", b"a0", b"A", b"_", b".h", b"a b", b" ", "é".encode()]),
    st.binary(min_size=1, max_size=6).filter(lambda name: not {0, 47} & set(name)),
).filter(lambda name: name not in (b".", b".."))
# a directory, a file's content, or the target of a link
trees = st.recursive(
    st.one_of(st.binary(max_size=20), st.sampled_from([b"x" * 300_000, b"", "a", "none"])),
    lambda inner: st.dictionaries(names, inner, max_size=5),
    max_leaves=12,
)


def plant(path: bytes, tree: object) -> None:
    if isinstance(tree, dict):
        os.mkdir(path)  # noqa: PTH102  (names in bytes)
        for name, inner in tree.items():
            plant(path + b"/" + name, inner)
    elif isinstance(tree, str):
        os.symlink(tree, path)  # noqa: PTH211  (the same)
    else:
        with open(path, "wb") as stream:  # noqa: PTH123  (the same)
            stream.write(bytes(tree))  # type: ignore[call-overload]


@given(tree=st.dictionaries(names, trees, max_size=5))
@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_random_tree_has_the_same_hash_or_none_in_both(
    tmp_path: Path, tree: dict[bytes, object]
) -> None:
    root = tmp_path / "tree"
    shutil.rmtree(root, ignore_errors=True)
    plant(os.fsencode(root), tree)
    here = package_oracle.our_outcome(lambda: modelpackage.hash_directory(root))
    there = package_oracle.outcome(
        lambda: str(onnxruntime.ModelPackage.compute_directory_hash(str(root)))
    )
    assert here == there
