"""Messages of the catalogue from values of the service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidRequestError
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.endpoints import messages

if TYPE_CHECKING:
    from sealcar_server.service.findings import Validated
    from sealcar_server.service.resealing import Resealed
    from sealcar_server.service.values import PackageDetail, PackageSummary, ResolvedReference

_TOKEN: Final = re.compile(r"([a-z0-9._+-]{1,64})/([a-z0-9._+-]{1,64})")


def summary_message(summary: PackageSummary) -> pb.PackageSummary:
    """Return what a listing says of one version."""
    return pb.PackageSummary(
        package=common.PackageRef(name=summary.name, version=summary.version),
        generation=summary.generation,
        current=summary.current,
        components=summary.components,
        variants=summary.variants,
        payloads=summary.payloads,
        size=summary.size,
        assets=summary.assets,
    )


def detail_message(detail: PackageDetail) -> pb.GetResponse:
    """Return one package in full."""
    return pb.GetResponse(
        summary=summary_message(detail.summary),
        package_id=detail.package_id,
        kek_alias=detail.kek_alias,
        kek_version=detail.kek_version,
        variants=[messages.variant_message(one, one.payloads) for one in detail.variants],
        description=detail.description,
        verified=detail.verified,
        assets=[
            pb.AssetInfo(uri=one.uri, payloads=map(messages.payload_message, one.payloads))
            for one in detail.assets
        ],
        generations=detail.generations,
        versions=detail.versions,
        manifest_sha256=detail.manifest_sha256,
    )


def resolved_message(found: ResolvedReference) -> pb.ResolveResponse:
    """Return what a reference stands for."""
    return pb.ResolveResponse(
        scope=messages.scope_message(found.scope),
        payloads=map(messages.payload_message, found.payloads),
    )


def validated_message(found: Validated) -> pb.ValidateResponse:
    """Return all that is wrong with a generation."""
    findings = [
        pb.Finding(
            severity=pb.SEVERITY_ERROR if one.is_error else pb.SEVERITY_WARNING,
            code=one.code,
            place=one.place,
            message=one.message,
        )
        for one in found.findings
    ]
    return pb.ValidateResponse(
        package=common.PackageRef(name=found.name, version=found.version),
        generation=found.generation,
        findings=findings,
        verified=found.verified,
    )


def resealed_message(found: Resealed) -> pb.ResealResponse:
    """Return what was sealed anew."""
    return pb.ResealResponse(
        generation=found.generation,
        changed=found.changed,
        unsealed=found.unsealed,
        manifest_sha256=found.manifest_sha256,
    )


def page_token(last: PackageSummary) -> str:
    """Return what the next page begins with."""
    return f"{last.name}/{last.version}"


def page_start(token: str) -> tuple[str, str]:
    """Return what a page begins after.

    Raises:
        InvalidRequestError: no list gave such a token.
    """
    if not token:
        return "", ""
    match = _TOKEN.fullmatch(token)
    if not match:
        raise InvalidRequestError("the page token is none that a list gave")
    return match[1], match[2]
