"""A daemon that lies about packages: the client takes no more than it can hold, and says so."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest

from sealcar import errors
from sealcar.catalogue import values
from sealcar.cli.verifying import resumable
from sealcar.protocol import check_answer
from sealcar.transfer.scopes import MAX_PAYLOADS, ScopeName, opened_scope
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

MORE: Final = "more"
NAME: Final = ScopeName("ocr", "main", "onnx")
DEEP: Final = '{"ort":' * 50_000 + "1" + "}" * 50_000


def page(**fields: object) -> Callable[[payloads_pb2.OpenRequest], payloads_pb2.OpenResponse]:
    variant = common.VariantInfo(component="main", variant="onnx", **fields)  # type: ignore[arg-type]  # a test's own
    answer = payloads_pb2.OpenResponse(variant=variant)
    return lambda _request: answer


@pytest.mark.parametrize("text", [DEEP, "[]", "{", '{"a": 1' + "0" * 5000 + "}"])
def test_an_executor_info_that_nobody_can_read_is_refused(text: str) -> None:
    with pytest.raises(errors.SealcarError):
        opened_scope(page(executor_info_json=text), NAME)
    with pytest.raises(errors.SealcarError):
        values.variant(common.VariantInfo(executor_info_json=text))


def test_pages_of_payloads_without_end_are_left() -> None:
    infos = [common.PayloadInfo(name=f"p{number}") for number in range(1000)]
    answer = payloads_pb2.OpenResponse(
        variant=common.VariantInfo(payloads=infos), next_page_token=MORE
    )
    asked = []

    def answering(request: payloads_pb2.OpenRequest) -> payloads_pb2.OpenResponse:
        asked.append(request.page_token)
        return answer

    with pytest.raises(errors.IncompatibleError):
        opened_scope(answering, NAME)
    assert len(asked) == MAX_PAYLOADS // len(infos) + 1


def test_an_empty_page_that_is_not_the_last_is_refused() -> None:
    answer = payloads_pb2.OpenResponse(next_page_token=MORE)
    with pytest.raises(errors.IncompatibleError):
        opened_scope(lambda _request: answer, NAME)


@pytest.mark.parametrize(
    ("version", "behind"), [(0, "daemon"), (2, "client"), (2**32 - 1, "client")]
)
def test_a_version_that_nobody_agreed_on_is_refused(version: int, behind: str) -> None:
    with pytest.raises(errors.IncompatibleError, match=f"update the {behind}") as caught:
        check_answer(version, "9\x1b[31m" * 100)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_a_token_that_a_daemon_chose_does_nothing_in_a_terminal_or_shell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = "x'; touch /tmp/y; echo '\x1b[31m$(id)"
    with suppress(errors.UnavailableError), resumable("sealcar verify ocr") as keep:
        keep(chosen)
        raise errors.UnavailableError("it went away")
    told = capsys.readouterr().err
    assert told.rstrip("\n").isprintable()
    *before, last = shlex.split(told)
    assert before == ["to", "go", "on:", "sealcar", "verify", "ocr", "--resume"]
    assert last == chosen.replace("\x1b", "\\x1b")
