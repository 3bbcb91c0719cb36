"""The catalogue: what a daemon's store holds, and how packages get there.

`Catalogue` asks a listener's gRPC socket. Bytes of payloads don't come this way: see
`sealcar.connect`.
"""

from sealcar.catalogue.store import Catalogue
from sealcar.catalogue.values import (
    Imported,
    PackageDetail,
    PackageSummary,
    Progress,
    VariantInfo,
    Verified,
)

__all__ = [
    "Catalogue",
    "Imported",
    "PackageDetail",
    "PackageSummary",
    "Progress",
    "VariantInfo",
    "Verified",
]
