"""What is in a package, and what names in it stand for."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sealcar.errors import InvalidRequestError, NotFoundError
from sealcar.names import shown
from sealcar.transfer import references
from sealcar_server.access.policy import Right
from sealcar_server.service.failing import during, place_of
from sealcar_server.service.serving import asset_value, variant_value
from sealcar_server.service.summaries import summarise
from sealcar_server.service.values import (
    PackageDetail,
    ResolvedReference,
    ScopeKey,
    VariantValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.entrance import Entrance
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.values import AssetValue, PayloadValue
    from sealcar_server.store.interface import Store


class Looking:
    """Safe to share between threads.

    Args:
        policy: decides which components the caller sees.
        store: where packages lie.
        entrance: opens packages.
        pointers: which versions are current.
    """

    def __init__(self, policy: Rules, store: Store, entrance: Entrance, pointers: Pointers) -> None:
        self._policy, self._store = policy, store
        self._entrance, self._pointers = entrance, pointers

    def get(
        self, principal: Principal, name: str, version: str = "", generation: int = 0
    ) -> PackageDetail:
        """Return one package as far as the caller may list its components.

        It is authenticated unless the daemon is locked.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        with self._entrance.glance(principal, (name, version, generation)) as (opened, verified):
            manifest = opened.place.manifest()
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
                if self._may_list(principal, name, variant.component)
            ),
            description=description if isinstance(description, str) else "",
            assets=tuple(self._assets(principal, opened)),
            generations=tuple(self._generations(name, sealed.version)),
            versions=tuple(self._store.versions(name)),
            manifest_sha256=hashlib.sha256(manifest).digest(),
            verified=verified,
        )

    def resolve(self, principal: Principal, scope: ScopeKey, reference: str) -> ResolvedReference:
        """Return what a scope, and a reference of its variant, stand for.

        Raises:
            InvalidRequestError: a reference without a variant that it is relative to.
            InvalidNameError: the reference leads out of the variant.
            NotFoundError: there is no such thing, or none that the caller may know of.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        if (reference or scope.variant) and not (scope.component and scope.variant):
            raise InvalidRequestError("a reference needs a component and a variant")
        place = (scope.package, scope.version, scope.generation)
        with self._entrance.enter(principal, Right.LIST, place) as opened:
            found = ScopeKey(
                scope.package,
                opened.place.version,
                scope.component,
                scope.variant,
                opened.place.number,
            )
            with during("resolve", **place_of(found)):
                if scope.component:
                    self._policy.require(principal, Right.LIST, scope.package, scope.component)
                return ResolvedReference(found, tuple(_payloads(opened, found, reference)))

    def _may_list(self, principal: Principal, name: str, component: str) -> bool:
        return self._policy.allows(principal, Right.LIST, name, component)

    def _assets(self, principal: Principal, opened: OpenedPackage) -> Iterator[AssetValue]:
        """Yield the assets that components use which the caller sees.

        What none uses belongs to the package as a whole: it is for who sees all of them.
        """
        name = opened.place.name
        seen = {
            item.component: self._may_list(principal, name, item.component)
            for item in opened.record.components
        }
        for asset in opened.record.assets:
            users = {variant.component for variant in opened.users_of(asset.uri)}
            if any(seen.get(user) for user in users) or (not users and all(seen.values())):
                yield asset_value(asset)

    def _generations(self, name: str, version: str) -> Iterator[int]:
        for number in self._store.numbers(name, version):
            try:
                yield self._store.generation(name, version, number).number
            except NotFoundError:
                continue  # unfinished, or removed meanwhile


def _variants(opened: OpenedPackage) -> tuple[VariantValue, ...]:
    sealed = tuple(variant_value(opened, variant) for variant in opened.record.variants)
    return sealed + tuple(VariantValue(*scope, sealed=False) for scope in opened.unsealed)


def _payloads(opened: OpenedPackage, scope: ScopeKey, reference: str) -> Iterator[PayloadValue]:
    if scope.component and not opened.has_component(scope.component):
        raise NotFoundError(f"component {shown(scope.component)} doesn't exist")
    if not scope.variant:
        return
    found = variant_value(opened, opened.variant(scope.component, scope.variant))
    if not reference:
        return
    everything = {payload.name: payload for payload in found.payloads}
    try:
        chosen = [references.resolve(reference, everything)]
    except NotFoundError:
        prefix = references.resolve_folder(reference, everything)
        chosen = [name for name in everything if name.startswith(prefix)]
    yield from (everything[name] for name in chosen)
