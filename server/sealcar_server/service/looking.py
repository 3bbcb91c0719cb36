"""What is in a package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar_server.access.policy import Right
from sealcar_server.service.serving import variant_value
from sealcar_server.service.summaries import summarise
from sealcar_server.service.values import PackageDetail, VariantValue

if TYPE_CHECKING:
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.entrance import Entrance
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.pointer import Pointers


class Looking:
    """Safe to share between threads.

    Args:
        policy: decides which components the caller sees.
        entrance: opens packages.
        pointers: which versions are current.
    """

    def __init__(self, policy: Rules, entrance: Entrance, pointers: Pointers) -> None:
        self._policy, self._entrance, self._pointers = policy, entrance, pointers

    def get(
        self, principal: Principal, name: str, version: str = "", generation: int = 0
    ) -> PackageDetail:
        """Return one package, authenticated, as far as the caller may list its components.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        with self._entrance.enter(principal, Right.LIST, (name, version, generation)) as opened:
            sealed = opened.record
        description = opened.manifest.get("description", "")
        current = self._pointers.claimed(name) == sealed.version
        return PackageDetail(
            summary=summarise(sealed, current=current),
            package_id=sealed.package_id,
            kek_alias=sealed.kek_alias,
            kek_version=sealed.kek_version,
            variants=tuple(
                variant
                for variant in _variants(opened)
                if self._policy.allows(principal, Right.LIST, name, variant.component)
            ),
            description=description if isinstance(description, str) else "",
        )


def _variants(opened: OpenedPackage) -> tuple[VariantValue, ...]:
    sealed = tuple(variant_value(opened, variant) for variant in opened.record.variants)
    return sealed + tuple(VariantValue(*scope, sealed=False) for scope in opened.unsealed)
