"""The daemon's settings: all sections, and what messages and help say of their keys.

This table is all there is: reading, checking and the text of messages come from it.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from sealcar_server import settings_kinds as kinds
from sealcar_server.settings_sections import (
    Admin,
    Audit,
    Daemon,
    Hardening,
    Key,
    Limits,
    Listen,
    Log,
    Metrics,
    PolicyFile,
    Prefetch,
    Rollback,
    Tls,
    Traces,
    Transfer,
    Transit,
)
from sealcar_server.settings_store import Store

if TYPE_CHECKING:
    from sealcar_server.settings_spec import Spec

__all__ = ["NAMED", "SECTIONS", "Key", "KeyInfo", "Log", "Section", "Settings", "keys_of"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, checked."""

    daemon: Daemon
    listen: Mapping[str, Listen]
    admin: Admin
    metrics: Metrics
    traces: Traces
    tls: Tls
    store: Store
    keys: Mapping[str, Key]
    policy: PolicyFile
    transfer: Transfer
    prefetch: Prefetch
    transit: Transit
    limits: Limits
    rollback: Rollback
    audit: Audit
    hardening: Hardening
    log: Log


Section = (
    Daemon
    | Listen
    | Admin
    | Metrics
    | Traces
    | Tls
    | Store
    | Key
    | PolicyFile
    | Transfer
    | Prefetch
    | Transit
    | Limits
    | Rollback
    | Audit
    | Hardening
    | Log
)
SECTIONS: Final[Mapping[str, type[Section]]] = {
    "daemon": Daemon,
    "admin": Admin,
    "metrics": Metrics,
    "traces": Traces,
    "tls": Tls,
    "store": Store,
    "policy": PolicyFile,
    "transfer": Transfer,
    "prefetch": Prefetch,
    "transit": Transit,
    "limits": Limits,
    "rollback": Rollback,
    "audit": Audit,
    "hardening": Hardening,
    "log": Log,
}
NAMED: Final[Mapping[str, type[Section]]] = {"listen": Listen, "keys": Key}


@dataclass(frozen=True)
class KeyInfo:
    """One key of a section, as messages and help need it.

    Attributes:
        kind: what is allowed.
        purpose: what it is for.
        required: whether there is no default.
        default: the value; None: none.
    """

    kind: kinds.Kind[Any]
    purpose: str
    required: bool
    default: object = None


def keys_of(section: str) -> Mapping[str, KeyInfo]:
    """Return the keys of a section, by name."""
    table: type[Section] = {**SECTIONS, **NAMED}[section]
    hints = get_type_hints(table, include_extras=True)
    found = {}
    for one in fields(table):
        spec: Spec = hints[one.name].__metadata__[0]
        required = one.default is MISSING and one.default_factory is MISSING
        default = None if one.default is MISSING else one.default
        found[one.name] = KeyInfo(spec.kind, spec.purpose, required, default)
    return found
