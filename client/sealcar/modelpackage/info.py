"""A package as the native library describes one, for whoever knows that form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.modelpackage.json_text import Json, compact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.modelpackage.package import Package
    from sealcar.modelpackage.values import Variant


def info(package: Package) -> dict[str, Json]:
    """Return the same keys and values, in the same order, as the library's `get_info`."""
    return {
        "schema_version_major": package.schema_version.major,
        "schema_version_minor": package.schema_version.minor,
        "package_name": package.name,
        "package_version": package.version,
        "description": package.description,
        "layout": package.layout,
        "additional_metadata_json": _metadata(package.manifest),
        "components": [
            {
                "name": component.name,
                "additional_metadata_json": _metadata(component.body),
                "variants": [_variant(variant) for variant in component.variants.values()],
            }
            for component in package.components.values()
        ],
        "shared_assets": [
            {"uri": asset.uri, "resolved_path": asset.path}
            for asset in package.shared_assets.values()
        ],
    }


def _variant(variant: Variant) -> dict[str, Json]:
    return {
        "name": variant.name,
        "variant_directory": None if variant.directory is None else str(variant.directory),
        "ep": variant.ep,
        "device": variant.device,
        "compatibility_string": variant.compatibility,
        "additional_metadata_json": _metadata(variant.body),
        "executor_info": {item.namespace: item.text for item in variant.executor_info.values()},
    }


def _metadata(body: Mapping[str, Json]) -> str | None:
    return compact(body["additional_metadata"]) if "additional_metadata" in body else None
