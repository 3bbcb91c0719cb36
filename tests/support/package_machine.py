"""Packages that are edited, saved and pruned at random, in both libraries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import onnxruntime
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from support import package_oracle
from support.package_changes import Changes
from support.package_edits import different, tree

from sealcar import modelpackage

if TYPE_CHECKING:
    from pathlib import Path


class Machine(Changes):
    """Both libraries write the same files."""

    @precondition(lambda self: not self.over)
    @rule()
    def commit(self) -> None:
        before = tree(self.root) if self.saved() else {}
        mine = package_oracle.our_outcome(lambda: str(self.ours.commit()))  # type: ignore[func-returns-value]
        its = package_oracle.outcome(lambda: str(self.native.commit()))
        if mine == its == "None":
            self.check_committed()
        elif mine == its:
            if self.saved():
                assert tree(self.root) == before
                self.part("commit_failed_halfway")
        elif self.file_is_shared():
            # which of the two bodies can't be saved isn't seen there
            assert its == "None"
            assert tree(self.root) == before
            self.part("shared_file")
        else:
            # it would have been the end of the package
            assert its == "None"
            assert (
                package_oracle.outcome(
                    lambda: package_oracle.native_info(self.native_root, modelpackage.Rules())
                )
                == mine
            )
            assert tree(self.root) == before
            self.part("commit_would_not_open")

    @precondition(lambda self: not self.over and self.saved())
    @rule()
    def commit_dense(self) -> None:
        directories = self.directories()
        moved = any(item.file for item in self.ours.package.components.values())
        before = tree(self.root)
        mine = package_oracle.our_outcome(
            lambda: str(self.ours.commit(modelpackage.WriteMode.DENSE))  # type: ignore[func-returns-value]
        )
        its = package_oracle.outcome(
            lambda: str(self.native.commit(mode=onnxruntime.ModelPackageWriteMode.DENSE))
        )
        if mine == "None":
            assert package_oracle.native_info(self.root, modelpackage.Rules())
            assert self.directories() == directories
            assert not any(item.file for item in self.ours.package.components.values())
        else:
            assert tree(self.root) == before
        if moved or "None" not in (mine, its):
            self.part("dense")
        elif mine != its:
            self.part("commit_would_not_open")
        else:
            self.check_committed()

    def check_committed(self) -> None:
        assert different(tree(self.root), tree(self.native_root)) == {}
        self.committed = True
        its, mine = self.info()
        if its != mine:
            again = package_oracle.native_info(self.native_root, modelpackage.Rules())
            assert self.here(again) == self.here(json.dumps(modelpackage.info(self.ours.package)))
            self.part("paths_reread")

    def file_is_shared(self) -> bool:
        files = [item.file for item in self.ours.package.components.values() if item.file]
        return len(set(files)) < len(files)

    def directories(self) -> list[Path | None]:
        return [
            variant.directory
            for component in self.ours.package.components.values()
            for variant in component.variants.values()
        ]

    @precondition(lambda self: not self.over)
    @rule(dense=st.booleans(), where=st.sampled_from(["new", "new", "new", "full", "file", ""]))
    def save_as(self, dense: bool, where: str) -> None:  # noqa: FBT001  (drawn)
        self.saves += 1
        places = [self.base / side / f"{where}{self.saves}" for side in ("there", "here")]
        for place in places:
            place.parent.mkdir(exist_ok=True)
            if where == "full":
                place.mkdir()
                (place / ".hidden").write_text("")
            elif where == "file":
                place.write_text("")
        its_mode = onnxruntime.ModelPackageWriteMode
        its_mode, mode = (
            (its_mode.DENSE, modelpackage.WriteMode.DENSE)
            if dense
            else (its_mode.PRESERVE, modelpackage.WriteMode.PRESERVE)
        )
        unsaved = not self.saved()
        moved = any(item.file for item in self.ours.package.components.values())
        its_place, my_place = (str(item) if where else "" for item in places)
        mine = package_oracle.our_outcome(lambda: str(self.ours.save_as(my_place, mode)))  # type: ignore[func-returns-value]
        its = package_oracle.outcome(lambda: str(self.native.commit(its_place, its_mode)))
        if where in ("full", "file", ""):
            assert (mine, its) != ("None", "None")
            if where != "file" and mine != its:
                # what else is wrong is found in another order
                self.part("save_as")
        elif mine == "None":
            self.check_saved(places[1])
            if its == "None" and not (dense and moved):
                # all that was saved there is here, but for files that took a directory's name
                more = tree(places[1])
                lost = {name: text for name, text in tree(places[0]).items() if text != more[name]}
                assert all(more[name] == "/" for name in lost)
            if its == "None" and unsaved:
                assert tree(places[0]) == tree(places[1])
                self.native_root, self.root = places
            else:
                self.part("save_as")
        else:
            assert not places[1].exists()
            self.part("save_as")

    def check_saved(self, place: Path) -> None:
        package = modelpackage.open(place)
        assert json.loads(package_oracle.native_info(place, modelpackage.Rules()))
        for component in package.components.values():
            for variant in component.variants.values():
                before = self.ours.package.components[component.name].variants[variant.name]
                assert (variant.directory is None) == (before.directory is None)

    @precondition(lambda self: not self.over)
    @rule()
    def prune(self) -> None:
        before = tree(self.root) if self.saved() else {}
        committed = modelpackage.open(self.root) if self.saved() else None
        self.both(self.native.prune, self.ours.prune)
        if committed is None:
            return
        if tree(self.root) != tree(self.native_root):
            assert set(tree(self.native_root)) <= set(tree(self.root))
            self.part("prune")
        # whatever was pruned, the saved package is as it was
        assert modelpackage.info(modelpackage.open(self.root)) == modelpackage.info(committed)
        assert set(tree(self.root)) <= set(before)
