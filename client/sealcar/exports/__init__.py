"""Packages that leave a daemon: as a directory, or as one tar file.

An export is a model package: `manifest.json`, `COMPONENT/VARIANT/PAYLOAD` and
`shared_assets/sha256-…/PAYLOAD`, and nothing else.
"""

from sealcar.exports.places import Destination, Recipient

__all__ = ["Destination", "Recipient"]
