"""The manifest of a generation on its way out: as it lies in the store, or as before sealing."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeAlias, cast

from sealcar.errors import InvalidPackageError, NotAuthenticError, TruncatedError
from sealcar.names import shown
from sealcar_server.sealing import record
from sealcar_server.sealing.agreement import compare
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service.composing import NAMESPACE
from sealcar_server.service.references import renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.service.opened import OpenedPackage

_Object: TypeAlias = "dict[str, JsonValue]"
_Scopes: TypeAlias = "Collection[tuple[str, str]]"


def stored_manifest(opened: OpenedPackage) -> bytes:
    """Return the manifest as it lies in the store, without variants that aren't sealed.

    Other tools may have written it anew since it was opened, so it is checked again.

    Raises:
        NotFoundError: the generation was removed.
        NotAuthenticError, TruncatedError: it isn't what its record says any more.
    """
    data = opened.place.manifest()
    manifest = strict_json(data, error=NotAuthenticError)
    text, _ = record.open_envelope(manifest)
    if hashlib.sha256(text).digest() != opened.digest:
        raise NotAuthenticError("the manifest holds another seal record than when it was opened")
    try:
        found = compare(opened.record, manifest)
    except InvalidPackageError as error:
        raise NotAuthenticError(error.message) from None
    refuse_missing(found.missing)
    # the files of those aren't exported, and a package must have what its manifest names
    return (
        _written(_sealed_only(cast("_Object", manifest), found.unsealed))
        if found.unsealed
        else data
    )


def plain_manifest(opened: OpenedPackage, uris: Mapping[str, str]) -> bytes:
    """Return the manifest without what sealing put in, written for people to read."""
    return _written(plain_object(opened, uris))


def plain_object(opened: OpenedPackage, uris: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return the manifest without what sealing put in.

    Args:
        opened: the generation.
        uris: of every shared asset: of the plaintext, by that of the ciphertext.
    """

    def unsealed(_scope: tuple[str, str], body: _Object) -> _Object:
        info = body.get("executor_info")
        if not isinstance(info, dict):
            return body
        return _without({**body, "executor_info": renamed(info, uris)}, "executor_info")

    manifest = _without(_sealed_only(opened.manifest, opened.unsealed), "additional_metadata")
    return _each_variant(manifest, unsealed)


def enclosed(opened: OpenedPackage, envelope: Mapping[str, str]) -> bytes:
    """Return the manifest of what is sealed, with another envelope."""
    manifest = _sealed_only(opened.manifest, opened.unsealed)
    metadata = manifest.get("additional_metadata")
    others = metadata if isinstance(metadata, dict) else {}
    return _written({**manifest, "additional_metadata": {**others, NAMESPACE: dict(envelope)}})


def refuse_missing(missing: _Scopes) -> None:
    """Raise TruncatedError if a manifest lacks variants that its record has."""
    for component, variant in missing:
        error = TruncatedError(f"the manifest lacks variant {shown(variant)}")
        raise error.at(component=component)


def _without(value: _Object, member: str) -> _Object:
    """Return an object without our namespace in a member, and without the member if that's all."""
    inner = value.get(member)
    if not isinstance(inner, dict) or NAMESPACE not in inner:
        return value
    kept = {name: item for name, item in inner.items() if name != NAMESPACE}
    if kept:
        return {**value, member: kept}
    return {name: item for name, item in value.items() if name != member}


def _sealed_only(manifest: _Object, unsealed: _Scopes) -> _Object:
    return _each_variant(manifest, lambda scope, body: None if scope in unsealed else body)


def _each_variant(
    manifest: _Object, change: Callable[[tuple[str, str], _Object], _Object | None]
) -> _Object:
    """Return the manifest with each variant's body changed; without those that become None."""
    components: _Object = {}
    for name, component in _objects(manifest["components"]).items():
        found = {
            key: change((name, key), body) for key, body in _objects(component["variants"]).items()
        }
        variants: _Object = {key: body for key, body in found.items() if body is not None}
        components[name] = {**component, "variants": variants}
    return {**manifest, "components": components}


def _objects(value: JsonValue) -> dict[str, _Object]:
    # the comparison with the record has found objects wherever the format wants them
    return cast("dict[str, _Object]", value)


def _written(manifest: _Object) -> bytes:
    return json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"
