"""What a listing says of one version of a package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar_server.service.values import PackageSummary

if TYPE_CHECKING:
    from sealcar_server.sealing.values import SealRecord


def summarise(sealed: SealRecord, *, current: bool) -> PackageSummary:
    """Count what a record has; it may not be authenticated yet."""
    own = [payload for variant in sealed.variants for payload in variant.payloads]
    shared = [payload for asset in sealed.assets for payload in asset.payloads]
    return PackageSummary(
        name=sealed.name,
        version=sealed.version,
        generation=sealed.generation,
        current=current,
        components=len(sealed.components),
        variants=len(sealed.variants),
        payloads=len(own),
        size=sum(payload.size for payload in own + shared),
        assets=len(sealed.assets),
    )
