"""Carries what didn't change into the next generation: every file of it, by a second name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import ConflictError, NotFoundError, TruncatedError
from sealcar_server.sealing.values import RecordAsset
from sealcar_server.service.failing import during
from sealcar_server.service.opened import every_payload

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.service.opened import Held, OpenedPackage
    from sealcar_server.store.interface import Staging


def link_generation(
    source: OpenedPackage,
    staging: Staging,
    phase: str,
    *,
    without: tuple[str, str] | None = None,
    step: Callable[[], None] | None = None,
) -> None:
    """Link all payloads of a generation, those of its shared assets too, into one in the making.

    Args:
        source: what is carried on.
        staging: of the next generation.
        phase: named in errors.
        without: component and variant whose payloads are not carried on.
        step: called before each; what it raises ends the work.

    Raises:
        TruncatedError: the store lacks a payload that the record has.
        ConflictError: another daemon removed what is carried on.
        AlreadyExistsError: one was created or linked before.
        ExhaustedError, StorageError: it can't be written.
    """
    for item in source.record.variants:
        # also one that has no payload but those of an asset
        staging.create_variant(item.component, item.variant)
    for held in every_payload(source):
        owner = held.owner
        if not isinstance(owner, RecordAsset) and (owner.component, owner.variant) == without:
            continue
        if step is not None:
            step()
        with during(phase, **held.place):
            _link(source, staging, held)


def _link(source: OpenedPackage, staging: Staging, held: Held) -> None:
    owner, name = held.owner, held.payload.name
    try:
        if isinstance(owner, RecordAsset):
            staging.link_asset(source.place, owner.uri, name)
        else:
            staging.link_payload(source.place, owner.component, owner.variant, name)
    except NotFoundError as error:
        _refuse_removed(source)
        raise TruncatedError("the store lacks a payload that the seal record has") from error


def _refuse_removed(source: OpenedPackage) -> None:
    try:
        source.place.manifest()
    except NotFoundError:
        raise ConflictError("the generation was removed meanwhile") from None
