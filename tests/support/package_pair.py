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
        assert why in package_oracle.DIFFERENCES
        self.over = why

    def here(self, text: str) -> str:
        return text.replace(str(self.base / "there"), "$").replace(str(self.base / "here"), "$")

    def both(self, there: Callable[[], object], here: Callable[[], object]) -> str:
        """Make a call in both; return its outcome, which must be the same."""
        mine = package_oracle.our_outcome(lambda: str(here()))
        its = package_oracle.outcome(lambda: str(there()))
        if its == "ValueError" and mine != its and self.is_outside():
            self.part("layout_checked_late")
        elif mine == "FileNotFoundError" != its and not self.saved():
            self.part("unsaved_paths")
        else:
            assert self.here(mine) == self.here(its)
        return mine

    def is_outside(self) -> bool:
        """Tell if the package became portable, but still has an asset outside."""
        package = self.ours.package
        declared: Any = package.manifest.get("shared_assets", {})
        outside = [uri for uri in declared if not self.is_inside(package.resolve_asset(uri))]
        return package.layout == "portable" and bool(outside)

    def is_inside(self, path: str) -> bool:
        return path.startswith(f"{self.root}/")

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
