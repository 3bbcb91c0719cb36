"""A package that is edited by us and by ONNX Runtime's own library, side by side."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from support import package_oracle
from support.package_edits import plant, plant_assets

from sealcar import modelpackage

if TYPE_CHECKING:
    from collections.abc import Callable

# Where the two may part, and why ours is right. Whatever isn't in here must be the same.
DIFFERENCES = {
    "unsaved_version": "a package that was never saved says 0.0 there; here what will be written",
    "metadata_after_commit": "metadata of the package isn't told of there; here it is",
    "variant_metadata": "metadata of a variant is lost by a commit there; here it is written",
    "failed_setter": "a path to bad JSON is refused there and stays set; here nothing changes",
    "commit_would_not_open": "a commit writes packages there that don't open; here it is refused",
    "shared_file": "of components in one file the last is written there; here they must agree",
    "commit_failed_halfway": "a commit that fails leaves files there; here none",
    "save_as": "only JSON files and assets are saved elsewhere there; here the whole package",
    "dense": "moved components lose their variants' directories there; here paths are rewritten",
    "prune": "what is still needed is deleted there; here nothing that is, and nothing unsaved",
    "pending_order": "assets yet to be copied come in any order there; here as they were added",
    "asset_removed_late": "assets are deleted at once there; here by the commit",
    "unsaved_paths": "without a directory paths are the process's there; here there are none",
}


class Pair(RuleBasedStateMachine):
    """Both libraries get the same calls; what they say and write must be the same."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp()).resolve()
        self.before = Path.cwd()
        self.over = ""
        self.saves = 0
        self.committed = False
        plant_assets(self.base)
        (self.base / "cwd").mkdir()
        os.chdir(self.base / "cwd")

    @initialize(layout=st.sampled_from(["", "installed"]), fresh=st.integers(0, 5))
    def begin(self, layout: str, fresh: int) -> None:
        self.native_root, self.root = self.base / "there" / "p", self.base / "here" / "p"
        if fresh == 0:
            self.native, self.ours = onnxruntime.ModelPackage(), modelpackage.new()
            return
        for root in (self.native_root, self.root):
            plant(root)
            if layout:
                manifest = json.loads((root / "manifest.json").read_text())
                (root / "manifest.json").write_text(json.dumps({"layout": layout, **manifest}))
        self.native = onnxruntime.ModelPackage.open(str(self.native_root))
        self.ours = modelpackage.edit(self.root)

    def teardown(self) -> None:
        os.chdir(self.before)
        shutil.rmtree(self.base)

    # what is common

    def part(self, why: str) -> None:
        """The two parted, for a reason of the table; nothing more can be compared."""
        assert why in DIFFERENCES
        self.over = why

    def here(self, text: str) -> str:
        return text.replace(str(self.base / "there"), "$").replace(str(self.base / "here"), "$")

    def both(self, there: Callable[[], object], here: Callable[[], object]) -> str:
        """Make a call in both; return its outcome, which must be the same."""
        mine = package_oracle.our_outcome(lambda: str(here()))
        its = package_oracle.outcome(lambda: str(there()))
        assert self.here(mine) == self.here(its)
        return mine

    def info(self) -> tuple[str, str]:
        its = self.native.get_info()
        mine: dict[str, Any] = modelpackage.info(self.ours.package)
        if its["schema_version_major"] == 0:  # unsaved_version
            its["schema_version_major"] = 1
        if self.committed and its["additional_metadata_json"] is None:  # metadata_after_commit
            mine["additional_metadata_json"] = None
        if any(
            str(self.base) == str(Path(item["resolved_path"]).parent)
            for item in its["shared_assets"]
        ):
            for said in (its, mine):  # pending_order
                said["shared_assets"].sort(key=lambda item: item["uri"])
        return self.here(json.dumps(its)), self.here(json.dumps(mine))

    @invariant()
    def both_say_the_same(self) -> None:
        if not self.over and hasattr(self, "ours"):
            its, mine = self.info()
            assert mine == its

    def saved(self) -> bool:
        return self.ours.package.location is not None
