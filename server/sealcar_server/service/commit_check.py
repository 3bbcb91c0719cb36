"""Has the models of a written variant looked at before it is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.service.checking import Staged
from sealcar_server.service.opened import Held
from sealcar_server.service.serving import open_reader, reader_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordPayload
    from sealcar_server.service.checking import ModelChecker
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.transactions import Transaction


class CommitCheck:
    """Safe to share between threads.

    Args:
        checker: looks at them.
        opener: opens what they refer to.
    """

    def __init__(self, checker: ModelChecker, opener: Opener) -> None:
        self._checker, self._opener = checker, opener

    def check(
        self,
        transaction: Transaction,
        body: dict[str, JsonValue],
        written: Sequence[RecordPayload],
    ) -> None:
        """Return if what was written may be published; a transaction with what may not ends.

        Raises:
            InvalidPackageError: a model refers to what isn't stored with it, or is none.
            SealcarError: they can't be looked at.
        """
        info = body.get("executor_info")
        own = Staged(
            written,
            transaction.scope.component,
            transaction.scope.variant,
            executor_info=info if isinstance(info, dict) else {},
        )
        # those that others publish meanwhile aren't known to whoever wrote this variant
        assets = {asset.uri: asset for asset in transaction.base.record.assets}
        known = [Staged(item.payloads, asset=uri, known=True) for uri, item in assets.items()]

        def opening(owner: Staged, payload: RecordPayload, scratch: Scratch) -> SealedReader:
            if owner.asset:
                held = Held(assets[owner.asset], payload)
                return open_reader(self._opener, transaction.base, held, scratch)
            return self._written(transaction, payload, scratch)

        scratch = Scratch()
        try:
            self._checker.check([own, *known], opening, scratch)
        except InvalidPackageError:
            # nothing that is written can be taken back, so it can't become better
            transaction.abort()
            raise
        finally:
            scratch.wipe()

    def _written(
        self, transaction: Transaction, payload: RecordPayload, scratch: Scratch
    ) -> SealedReader:
        scope = (transaction.scope.component, transaction.scope.variant)
        key = self._opener.payload_key(transaction.base, *scope, payload.name)
        file = transaction.staging.open_payload(*scope, payload.name)
        return reader_of(file, key, payload, scratch)
