"""The variant of a package that suits a session, chosen by the rules of `sealcar.ort.choosing`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sealcar.errors import (
    InvalidRequestError,
    LockedError,
    NotFoundError,
    SealcarError,
)
from sealcar.names import harmless, shown
from sealcar.ort import runtime
from sealcar.ort.choosing import Choice, Offer, choose
from sealcar.transfer.scopes import ScopeName

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sealcar.catalogue import PackageDetail, VariantInfo
    from sealcar.client import Client
    from sealcar.modelpackage import Package
    from sealcar.ort.runtime import SessionOptions
    from sealcar.ort.sessions import Provider
    from sealcar.remote import RemoteClient


@dataclass(frozen=True)
class Selection(Choice):
    """The variant of a package in the store that was chosen.

    Attributes:
        scope: its full name, with the version and generation that were looked at.
    """

    scope: ScopeName


def select(  # noqa: PLR0913  (all but four are keyword-only)
    client: Client | RemoteClient,
    package: str,
    component: str | None = None,
    session_options: SessionOptions | None = None,
    *,
    version: str = "",
    generation: int = 0,
    providers: Sequence[Provider] | None = None,
) -> Selection:
    """Choose the variant that suits a session, as `load` without a variant does.

    The rules are ONNX Runtime's own: see `sealcar.ort.choosing`. Nothing is decrypted.

    Args:
        client: a connected client.
        package: store name.
        component: may be left out where the package has one.
        session_options: with the providers to choose for. They are left as they are.
        version: store version; empty: the current one.
        generation: 0: the newest.
        providers: as InferenceSession takes them.

    Raises:
        RuntimeSupportError: no variant fits, with the reason for each; or no session at all can be
            made with these options.
        InvalidRequestError: the component must be named, or several variants fit any provider.
        NotFoundError: no such package or component, or none that the caller may know of.
        LockedError: the daemon is locked, so what it says of a package isn't verified.
    """
    own = session_options if session_options is not None else runtime.onnxruntime().SessionOptions()
    found = client.catalogue.get(package, version, generation)
    if not found.verified:
        raise LockedError("the daemon is locked: an operator has to use `sealcar unlock`")
    summary = found.summary
    scope = ScopeName(package, component or "", "", summary.version, summary.generation)
    try:
        variants = _of_one_component(found, component)
        scope = replace(scope, component=variants[0].component)
        choice = choose([_offer(each) for each in variants], own, providers)
    except SealcarError as error:
        raise scope.placed(error, "select") from error.__cause__
    return Selection(
        choice.variant,
        choice.ep,
        choice.score,
        choice.fallback,
        choice.candidates,
        replace(scope, variant=choice.variant),
    )


def in_package(
    package: Package,
    component: str | None,
    session_options: SessionOptions,
    providers: Sequence[Provider] | None = None,
) -> tuple[str, str]:
    """Choose in a plain package by the same rules; return the component and the variant.

    Raises:
        RuntimeSupportError: as `select`.
        InvalidRequestError: as `select`.
        NotFoundError: no such component.
    """
    parts = {name: each for name, each in package.components.items() if component in (None, name)}
    if not parts:
        raise NotFoundError(f"the package has no component {shown(component or '*')}")
    name = _only(parts)
    offers = [
        Offer(each.name, each.ep or "", each.device or "", each.compatibility or "")
        for each in parts[name].variants.values()
    ]
    return name, choose(offers, session_options, providers).variant


def _of_one_component(found: PackageDetail, component: str | None) -> tuple[VariantInfo, ...]:
    variants = found.select(component or "")
    if not variants:
        raise NotFoundError("it has no variant that this caller may know of")
    _only(each.component for each in variants)
    return variants


def _only(components: Iterable[str]) -> str:
    names = list(dict.fromkeys(components))
    if len(names) > 1:
        raise InvalidRequestError(f"name the component: one of {harmless(', '.join(names))}")
    return names[0]


def _offer(info: VariantInfo) -> Offer:
    barred = "" if info.sealed else "the seal record hasn't got it, so it is never served"
    return Offer(info.variant, info.ep, info.device, info.compatibility, barred)
