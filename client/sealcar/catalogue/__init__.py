"""The catalogue: what a daemon's store holds, and how packages get there.

`Catalogue` asks a listener's gRPC socket. Bytes of payloads don't come this way: see
`sealcar.connect`.
"""

from sealcar.catalogue.findings import Finding, Resealed, Validated
from sealcar.catalogue.managing import Pruned, PrunedGeneration
from sealcar.catalogue.prefetching import Prefetched
from sealcar.catalogue.resolving import Resolved
from sealcar.catalogue.store import Catalogue
from sealcar.catalogue.values import (
    AssetInfo,
    Imported,
    PackageDetail,
    PackageSummary,
    Progress,
    VariantInfo,
    Verified,
)

__all__ = [
    "AssetInfo",
    "Catalogue",
    "Finding",
    "Imported",
    "PackageDetail",
    "PackageSummary",
    "Prefetched",
    "Progress",
    "Pruned",
    "PrunedGeneration",
    "Resealed",
    "Resolved",
    "Validated",
    "VariantInfo",
    "Verified",
]
