"""Random manifests, most of them nearly right."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from support.package_world import ASSET, OTHER

PATHS = (
    *("v", "d", "d/v", "d/", "d/./v", "d//v", "link", "link/v", "out", "out/x", "dangling", "file"),
    *("c.json", "bad.json", "list.json", "comp", "none", "none/x", "none/", "a/..", "d/../v", ".."),
    *("../package", "../outside", "/etc", ".", "./", "", "..x", "...", "C:\\x", "~", ASSET, "é"),
)


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
uris = st.sampled_from([ASSET, OTHER, ASSET.upper()])
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
        st.dictionaries(st.sampled_from([ASSET, OTHER, ASSET.upper()]), st.one_of(paths, junk)),
        junk,
    ),
    additional_metadata=metadata,
    unknown=st.just(1),
)


def spoilt(text: str, at: int, what: bytes) -> bytes:
    """Put something into a document's text, at a place counted from its start, round and round."""
    raw = text.encode()
    at %= len(raw) + 1
    return raw[:at] + what + raw[at:]


junk_bytes = st.sampled_from(
    [
        b"",
        b"",
        b"",
        b"\xef\xbb\xbf",
        b"\0",
        b",",
        b"{",
        b"1e400",
        b"\xff",
        b"\\ud800",
        b" ",
        b"\n",
        b"//",
    ]
)
# the document as the file has it: the manifest, sometimes with something put in somewhere
documents = st.builds(
    spoilt,
    st.builds(
        lambda manifest, ascii_only: json.dumps(
            {"schema_version": "1.0", **manifest}, ensure_ascii=ascii_only
        ),
        manifests,
        st.booleans(),
    ),
    st.one_of(st.just(0), st.integers(0, 400)),
    junk_bytes,
)
flags = st.tuples(st.booleans(), st.booleans(), st.booleans())
