"""Pins and quotas of a policy as `sealcar policy` shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sealcar_server.access.grants import Right

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.address import Address
    from sealcar_server.access.bounds import Pin, Quota
    from sealcar_server.access.policy import Policy


def counted(rules: Policy) -> str:
    """Say how many rules of each kind there are; pins and quotas only if there are any."""
    kinds = [("grant", len(rules.grants)), ("pin", len(rules.pins))]
    kinds.append(("quota", len(rules.all_quotas)))
    return ", ".join(
        f"{count} {kind if count == 1 else f'{kind}s'}"
        for kind, count in kinds
        if count or kind == "grant"
    )


def listed(rules: Policy) -> Iterator[str]:
    """Yield a line for each pin and each quota."""
    for place, pin in enumerate(rules.pins, 1):
        yield f"pin {place}: {_pin(pin)}"
    for place, quota in enumerate(rules.all_quotas, 1):
        yield f"quota {place}: {_quota(quota)}"


def also(rules: Policy, right: Right, wanted: Address) -> Iterator[str]:
    """Yield what holds beside a grant: pins, and quotas for whoever writes."""
    for place, pin in enumerate(rules.pins, 1):
        if pin.is_about(wanted.name, wanted.version):
            yield f"pin {place} lets no older generation be opened: {_pin(pin)}"
    if right in {Right.IMPORT, Right.WRITE}:
        for place, quota in enumerate(rules.all_quotas, 1):
            if quota.is_about(wanted.name):
                yield f"quota {place} limits what is written: {_quota(quota)}"


def _pin(pin: Pin) -> str:
    package, version = json.dumps(pin.package), json.dumps(pin.version)
    return f"package = {package}, version = {version}, min_generation = {pin.least}"


def _quota(quota: Quota) -> str:
    return f"packages = {json.dumps(list(quota.packages))}, bytes = {quota.size}"
