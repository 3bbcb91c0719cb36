"""ONNX Runtime's own package library, asked the same as ours."""

from __future__ import annotations

import json
import os
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import onnxruntime
from support import package_world

from sealcar import modelpackage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AVAILABLE = hasattr(onnxruntime, "ModelPackage")
# Where the two may differ, and why ours is right. Whatever isn't in here must be the same.
DIFFERENCES = {
    # reading
    "trailing_slash": "a variant called `none/..` has its directory with a slash at the end there",
    "nul": "texts end at a NUL there; here they don't, and no path may hold one",
    "limits": "over the limits of size and depth, packages are refused here",
    # writing
    "unsaved_version": "a package that was never saved says 0.0 there; here what will be written",
    "metadata_after_commit": "metadata of the package isn't told of there; here it is",
    "paths_reread": "what a commit put where a path leads is told of once opened again there",
    "variant_metadata": "metadata of a variant is lost by a commit there; here it is written",
    "failed_setter": "a path to bad JSON is refused there and stays set; here nothing changes",
    "layout_checked_late": "made portable with assets outside, changes fail there; here the commit",
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
# the library tells its kinds of errors apart by these; `kind` gives ours the same names
KINDS: tuple[tuple[type[modelpackage.PackageError], str], ...] = (
    (modelpackage.StateError, "RuntimeError"),
    (modelpackage.MissingError, "FileNotFoundError"),
    (modelpackage.FileAccessError, "OSError"),
    (modelpackage.PackageError, "ValueError"),
)


def kind(error: Exception) -> str:
    """Return what kind of error it is, in words that both share."""
    for ours, name in KINDS:
        if isinstance(error, ours):
            return name
    known = (FileNotFoundError, OSError, ValueError, RuntimeError)
    return next(item.__name__ for item in known if isinstance(error, item))


def outcome(call: Callable[[], str]) -> str:
    """Return what a call of the library returns, or the kind of its error."""
    try:
        return call()
    except (OSError, ValueError, RuntimeError) as error:
        return kind(error)


def our_outcome(call: Callable[[], str]) -> str:
    """Return what a call of ours returns, or the kind of its error, which is one of ours."""
    try:
        return call()
    except modelpackage.PackageError as error:
        return kind(error)


def native_info(root: Path, rules: modelpackage.Rules) -> str:
    """Return what the library says about a package, as JSON; order counts."""
    with onnxruntime.ModelPackage.open(
        str(root),
        allow_external_paths=rules.allow_external_paths,
        follow_symlinks=rules.follow_symlinks,
        strict_unknown_fields=not rules.unknown_fields,
    ) as package:
        said = package.get_info()
    for component in said["components"]:
        for variant in component["variants"]:
            if variant["variant_directory"]:  # trailing_slash
                variant["variant_directory"] = variant["variant_directory"].rstrip("/") or "/"
    return json.dumps(said)


def our_info(root: Path, rules: modelpackage.Rules) -> str:
    """Return what we say about a package, as JSON."""
    with modelpackage.open(root, rules) as package:
        return json.dumps(modelpackage.info(package))


def different_references(package: Path, count: int, seed: int) -> list[str]:
    """Resolve random references with both in the package's directory; return what differs."""
    random = Random(seed)  # noqa: S311  (data of a test)
    different: list[str] = []
    before = os.getcwd()  # noqa: PTH109  (to go back there)
    os.chdir(package)
    try:
        for layout, *flags in product(("portable", "installed"), (False, True), (False, True)):
            package_world.write_manifest(package, layout)
            different += _compared(package, (bool(flags[0]), bool(flags[1])), random, count // 8)
    finally:
        os.chdir(before)
    return different


def _compared(package: Path, flags: tuple[bool, bool], random: Random, count: int) -> list[str]:
    different = []
    with (
        onnxruntime.ModelPackage.open(str(package), *flags) as native,
        modelpackage.open(package, modelpackage.Rules(*flags)) as ours,
    ):
        for _ in range(count):
            reference = package_world.random_reference(random, package)
            base = package_world.random_base(random, package)
            must_exist = random.random() < 0.4
            call = f"{flags} {reference!r} {base!r} {must_exist}"
            there = outcome(lambda: str(native.resolve_string_ref(reference, base, must_exist)))  # noqa: B023  (called at once)
            here = our_outcome(lambda: ours.resolve(reference, base=base, must_exist=must_exist))  # noqa: B023  (called at once)
            if there != here:
                different.append(f"{call}: {there!r} there, {here!r} here")
            there = outcome(lambda: str(native.resolve_asset_uri(reference)))  # noqa: B023  (called at once)
            here = our_outcome(lambda: ours.resolve_asset(reference))  # noqa: B023  (called at once)
            if there != here:
                different.append(f"asset {reference!r}: {there!r} there, {here!r} here")
    return different
