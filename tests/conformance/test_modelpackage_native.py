"""Random packages, opened by us and by ONNX Runtime's own library, with the same outcome."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealcar import modelpackage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not hasattr(onnxruntime, "ModelPackage"), reason="ONNX Runtime 1.32 brought the library"
)

HASH = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
PATHS = (
    *("v", "d", "d/v", "d/", "d/./v", "d//v", "link", "link/v", "out", "out/x", "dangling", "file"),
    *("c.json", "bad.json", "list.json", "comp", "none", "none/x", "none/", "a/..", "d/../v", ".."),
    *("../package", "../outside", "/etc", ".", "./", "", "..x", "...", "C:\\x", "~", HASH, "é"),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("native").resolve()
    package = base / "package"
    for name in ("v", "d/v", "comp", f"shared_assets/{HASH.replace(':', '-')}"):
        (package / name).mkdir(parents=True)
    (base / "outside").mkdir()
    (base / "outside" / "x").write_text("{}")
    (package / "link").symlink_to("d")
    (package / "out").symlink_to("../outside")
    (package / "dangling").symlink_to("nowhere")
    for name, text in {
        "file": "x",
        "c.json": '{"variants": {"v": {"ep": "E"}, "d/v": {}}}',
        "comp/component.json": '{"variants": {}, "component_name": "n"}',
        "bad.json": "{,}",
        "list.json": "\ufeff[1, 2.50]",
        "v/info.json": '{"a" : 1}\n',
        "d/v/info.json": "7",
    }.items():
        (package / name).write_text(text)
    return package


paths = st.sampled_from(PATHS)
junk: st.SearchStrategy[Any] = st.sampled_from([None, True, 0, 1.5, [], {}, "x"])
texts = st.one_of(st.sampled_from(["", "portable", "cpu", '\u007f\u2028"\\/']), junk)
metadata = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


def sometimes(required: dict[str, Any], **optional: Any) -> Any:  # noqa: ANN401  (strategies)
    return st.fixed_dictionaries(required, optional=optional)


infos = st.dictionaries(
    st.sampled_from(["ort", "own"]),
    st.one_of(st.just({"model_file": "m"}), paths, st.just("info.json"), junk),
    max_size=2,
)
variants: st.SearchStrategy[Any] = st.one_of(
    sometimes(
        {},
        variant_directory=st.one_of(paths, paths, junk),
        ep=texts,
        device=texts,
        compatibility_string=texts,
        executor_info=st.one_of(infos, infos, infos, junk),
        additional_metadata=metadata,
    ),
    st.just({}),
    st.just({"unknown": 1}),
    junk,
)
components = st.one_of(
    sometimes(
        {"variants": st.dictionaries(paths, variants, max_size=3)},
        component_name=texts,
        additional_metadata=metadata,
    ),
    paths,
    junk,
)
manifests = sometimes(
    {
        "components": st.one_of(
            *[st.dictionaries(st.sampled_from(["c", "d", "é"]), components, max_size=2)] * 6, junk
        )
    },
    schema_version=st.sampled_from(["1.0", "1.0", "1.0", "1", 1, "1.3", "2.0", "x", 1.0, None]),
    layout=st.sampled_from(["portable", "portable", "installed", "other", None]),
    package_name=texts,
    package_version=st.sampled_from(["1", "", None]),
    description=st.sampled_from(["", "text"]),
    shared_assets=st.one_of(
        st.dictionaries(st.sampled_from([HASH, OTHER, HASH.upper()]), st.one_of(paths, junk)), junk
    ),
    additional_metadata=metadata,
    unknown=st.just(1),
)


def native(root: Path, rules: modelpackage.Rules) -> Any:  # noqa: ANN401  (any JSON)
    try:
        package = onnxruntime.ModelPackage.open(
            str(root),
            allow_external_paths=rules.allow_external_paths,
            follow_symlinks=rules.follow_symlinks,
            strict_unknown_fields=not rules.unknown_fields,
        )
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "file"
    except ValueError:
        return "invalid"
    with package:
        # a name such as "a/.." leaves it a slash at the end of a directory, which says nothing
        return json.dumps(package.get_info()).replace('/", "ep":', '", "ep":')


def ours(root: Path, rules: modelpackage.Rules) -> Any:  # noqa: ANN401  (any JSON)
    try:
        return json.dumps(modelpackage.info(modelpackage.open(root, rules)))
    except modelpackage.MissingError:
        return "missing"
    except modelpackage.FileAccessError:
        return "file"
    except modelpackage.PackageError:
        return "invalid"


@given(manifest=manifests, flags=st.tuples(*[st.booleans()] * 3))
@settings(
    max_examples=800,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_random_package_opens_here_as_it_does_there(
    root: Path, manifest: dict[str, Any], flags: tuple[bool, bool, bool]
) -> None:
    rules = modelpackage.Rules(*flags)
    manifest = {"schema_version": "1.0", **manifest}
    (root / "manifest.json").write_text(json.dumps(manifest))
    assert ours(root, rules) == native(root, rules)
