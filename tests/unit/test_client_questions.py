"""What can't be put into a message is the caller's mistake, told before anybody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sealcar import errors
from sealcar.admin import Admin
from sealcar.catalogue import Catalogue
from sealcar.exports import Destination, Recipient

if TYPE_CHECKING:
    from collections.abc import Callable

NO_TEXT: Final = "\udcff"  # a byte of a command line that is no UTF-8
TOO_MUCH: Final = 1 << 64
NOBODY: Final = Path("/nonexistent")
CALLS: Final[dict[str, Callable[[Catalogue], object]]] = {
    "list": lambda daemon: list(daemon.list(NO_TEXT)),
    "list for a provider": lambda daemon: list(daemon.list(ep=NO_TEXT)),
    "get": lambda daemon: daemon.get("ocr", generation=TOO_MUCH),
    "get of another": lambda daemon: daemon.get(NO_TEXT),
    "verify": lambda daemon: daemon.verify("ocr", generation=-1),
    "verify on": lambda daemon: daemon.verify("ocr", resume=NO_TEXT),
    "validate": lambda daemon: daemon.validate("ocr", generation=TOO_MUCH),
    "reseal": lambda daemon: daemon.reseal("ocr", NO_TEXT),
    "use": lambda daemon: daemon.use("ocr", NO_TEXT),
    "remove": lambda daemon: daemon.remove("ocr", "1", TOO_MUCH),
    "prune": lambda daemon: daemon.prune("ocr", keep=-1),
}
OPERATORS: Final[dict[str, Callable[[Admin], object]]] = {
    "rotate": lambda admin: admin.rotate(NO_TEXT),
    "shred": lambda admin: admin.shred("ocr", NO_TEXT),
    "revoke": lambda admin: admin.revoke(NO_TEXT),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_question_that_no_message_holds_is_refused_before_anybody_is_asked(name: str) -> None:
    with Catalogue.at(NOBODY, peer_uid=0) as daemon, pytest.raises(errors.InvalidRequestError):
        CALLS[name](daemon)


@pytest.mark.parametrize("path", ["x\0y", "\ud800"])
def test_a_socket_whose_path_nothing_can_have_is_none(path: str) -> None:
    with Catalogue.at(Path(path), peer_uid=0) as daemon, pytest.raises(errors.SealcarError):
        daemon.get("ocr")


@pytest.mark.parametrize("name", OPERATORS)
def test_so_is_an_operators(name: str) -> None:
    with Admin(NOBODY, peer_uid=0) as admin, pytest.raises(errors.InvalidRequestError):
        OPERATORS[name](admin)


@pytest.mark.parametrize(
    "recipient",
    [Recipient(NO_TEXT), Recipient("customer", not_after=-1)],
    ids=["no text", "before 1970"],
)
def test_so_is_an_export_for_nobody_and_nothing_is_made(
    tmp_path: Path, recipient: Recipient
) -> None:
    with Catalogue.at(NOBODY, peer_uid=0) as daemon, pytest.raises(errors.InvalidRequestError):
        daemon.export("ocr", Destination(tmp_path / "out", tar=True, recipient=recipient))
    assert not list(tmp_path.iterdir())
