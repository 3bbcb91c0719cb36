"""Publishes a written variant as the next generation, on top of what others published."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import ConflictError, InvalidRequestError, TruncatedError
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service.composing import (
    NAMESPACE,
    Lineage,
    Payloads,
    compose,
    sealed_body,
    with_variant,
)
from sealcar_server.service.failing import during, place_of
from sealcar_server.service.linking import link_generation
from sealcar_server.service.metering import UNMETERED, Meter, timed
from sealcar_server.service.referring import check_references

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordPayload
    from sealcar_server.service.commit_check import CommitCheck
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.transactions import Transaction
    from sealcar_server.service.turns import Turns
    from sealcar_server.service.values import CommitValues, ScopeKey

_ATTEMPTS: Final = 16
_MAX_INFO: Final = 1 << 20
_MAX_TEXT: Final = 64 * 1024


class Publisher:
    """Turns transactions into generations.

    Args:
        opener: opens the generation before.
        turns: of all who publish: one at a time for each package and version.
        check: looks at the models first.
        meter: is told the seconds of "publish".
    """

    def __init__(
        self, opener: Opener, turns: Turns, *, check: CommitCheck, meter: Meter = UNMETERED
    ) -> None:
        self._opener, self._turns, self._check, self._meter = opener, turns, check, meter

    def commit(
        self, transaction: Transaction, values: CommitValues, may_read: Callable[[str], bool]
    ) -> ScopeKey:
        """Publish a transaction; repeating it gives the first answer.

        Args:
            transaction: whose payloads are written.
            values: what is said of its variant.
            may_read: tells of a component whether the writer may read it.

        Raises:
            InvalidRequestError: a value is malformed or over its limit, or names a shared asset
                that the writer may not read.
            InvalidPackageError: a model refers to what isn't stored with it, or is none.
            ConflictError: this very variant was changed since the transaction began.
            WrongStateError, ExhaustedError, StorageError: nothing was published.
        """
        scope = transaction.scope
        with during("publish", **place_of(scope)), timed(self._meter, "publish"):
            body = _body(values, (scope.component, scope.variant))

            def publish(written: list[RecordPayload]) -> ScopeKey:
                info = body["executor_info"]
                check_references(transaction.base, scope.component, info, may_read)
                return self._publish(transaction, body, written)

            return transaction.commit(values.payloads, publish)

    def _publish(
        self, transaction: Transaction, body: dict[str, JsonValue], written: list[RecordPayload]
    ) -> ScopeKey:
        self._check.check(transaction, body, written)
        scope = transaction.scope
        for _ in range(_ATTEMPTS):
            # one after the other: writers of one daemon needn't conflict with each other
            with self._turns.of(scope.package, scope.version):
                newest = self._rebase(transaction)
                try:
                    number = self._publish_on(newest, transaction, body, written)
                except ConflictError:
                    continue
            return replace(scope, generation=number)
        raise ConflictError(f"others published {_ATTEMPTS} times while this was tried: try again")

    def _rebase(self, transaction: Transaction) -> OpenedPackage:
        scope = transaction.scope
        newest = self._opener.open(scope.package, scope.version)
        if newest.record.package_id != transaction.base.record.package_id:
            # what was written is sealed under the keys of a package that is gone
            raise ConflictError("the version was removed and imported anew meanwhile")
        before = transaction.base.find(scope.component, scope.variant)
        if newest.find(scope.component, scope.variant) != before:
            raise ConflictError(
                f"variant {names.shown(scope.variant)} was changed since the transaction began"
            )
        return newest

    def _publish_on(
        self,
        newest: OpenedPackage,
        transaction: Transaction,
        body: dict[str, JsonValue],
        written: list[RecordPayload],
    ) -> int:
        if newest.missing:
            raise TruncatedError(f"the manifest lacks variant {names.shown(newest.missing[0][1])}")
        own = (transaction.scope.component, transaction.scope.variant)
        payloads: Payloads = {
            (item.component, item.variant): item.payloads for item in newest.record.variants
        }
        transaction.staging.unlink_payloads()
        link_generation(newest, transaction.staging, "publish", without=own)
        payloads[own] = tuple(written)
        manifest = with_variant(newest.manifest, own, body, set(payloads))
        with self._opener.keys(newest) as keys:
            lineage = Lineage.after(newest.record, newest.digest)
            composed = compose(manifest, payloads, lineage, keys, newest.record.assets)
        place = transaction.staging.publish(composed.manifest, newest.place.number + 1)
        self._opener.saw(place, composed.digest, composed.key)
        return place.number


def _body(values: CommitValues, scope: tuple[str, str]) -> dict[str, JsonValue]:
    texts = {
        "ep": values.ep,
        "device": values.device,
        "compatibility_string": values.compatibility,
    }
    for name, text in texts.items():
        if len(text) > _MAX_TEXT or "\0" in text or not _is_text(text):
            raise InvalidRequestError(f"{name} must be at most {_MAX_TEXT} characters of UTF-8")
    body: dict[str, JsonValue] = {name: text for name, text in texts.items() if text}
    return sealed_body(body, scope, _executor_info(values.executor_info_json))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _executor_info(text: str) -> dict[str, JsonValue]:
    if len(text.encode(errors="replace")) > _MAX_INFO:
        raise InvalidRequestError("executor_info must have at most 1 MiB")
    info = strict_json(text or "{}", "executor_info", error=InvalidRequestError)
    if not isinstance(info, dict) or not all(isinstance(item, dict) for item in info.values()):
        raise InvalidRequestError("executor_info must be an object of namespace to object")
    if NAMESPACE in info:
        raise InvalidRequestError(f"executor_info: the namespace {NAMESPACE!r} is the daemon's")
    return info
