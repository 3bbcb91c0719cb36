"""What is said of each setting."""

from dataclasses import dataclass
from typing import Any

from sealcar_server.settings_kinds import Kind


@dataclass(frozen=True)
class Spec:
    """What is allowed as a setting's value, and what the setting is for."""

    kind: Kind[Any]
    purpose: str
