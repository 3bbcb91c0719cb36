"""A check that was cut goes on with a token that only the daemon can have made."""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING

import pytest
from support.services import ME, MODEL, Running
from support.tampering import flip

from sealcar.errors import InvalidRequestError, NotAuthenticError, SealcarError, WrongStateError
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.service.values import Verified

FILES = {("det", "onnx", name): MODEL for name in ("a.onnx", "b.onnx", "c.onnx")}
TOTAL = 3 * len(MODEL)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        running.import_(payloads=FILES)
        yield running


class Steps:
    """Takes the steps of a check, and cuts it after so many bytes."""

    def __init__(self, most: int = TOTAL) -> None:
        self.steps: list[tuple[int, str]] = []
        self.token = ""
        self._most = most

    def __call__(self, done: int, total: int, payload: str, token: str, /) -> None:
        assert total == TOTAL
        self.steps.append((done, payload))
        self.token = token
        if done > self._most:
            raise InvalidRequestError("cut")


def verify(running: Running, token: str = "", version: str = "", generation: int = 0) -> Verified:
    return running.packages.verify(ME, "ocr", version, generation, Steps(), token)


def cut(running: Running, most: int = len(MODEL) + 1) -> str:
    steps = Steps(most)
    with pytest.raises(InvalidRequestError, match="cut"):
        running.packages.verify(ME, "ocr", "", 0, steps)
    return steps.token


def test_a_check_goes_on_behind_what_was_checked(running: Running) -> None:
    token = cut(running)
    steps = Steps()
    verified = running.packages.verify(ME, "ocr", "", 0, steps, token)
    assert (verified.payloads, verified.size) == (3, TOTAL)
    assert {payload for _, payload in steps.steps} == {"b.onnx", "c.onnx"}
    assert steps.steps[0][0] > len(MODEL)
    assert [done for done, _ in steps.steps] == sorted(done for done, _ in steps.steps)


def test_a_token_of_the_end_leaves_nothing_to_read(running: Running) -> None:
    steps = Steps()
    running.packages.verify(ME, "ocr", "", 0, steps)
    last = Steps()
    verified = running.packages.verify(ME, "ocr", "", 0, last, steps.token)
    assert (verified.payloads, verified.size, last.steps) == (3, TOTAL, [])


def test_a_token_outlives_the_daemon(running: Running, tmp_path: Path) -> None:
    token = cut(running)
    running.close()
    with Running(tmp_path) as again:
        assert verify(again, token).size == TOTAL


def test_what_the_token_leaves_is_checked_still(running: Running) -> None:
    token = cut(running)
    flip(running.generation() / "det/onnx/c.onnx", 100)
    with pytest.raises(NotAuthenticError):
        verify(running, token)


def test_a_changed_token_is_refused(running: Running) -> None:
    token = cut(running)
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    forged = {token[:-1], token + "A", token + "=", "x", "é", "A" * 5000, " " + token}
    for at in range(len(raw)):
        changed = bytes([*raw[:at], raw[at] ^ 1, *raw[at + 1 :]])
        forged.add(base64.urlsafe_b64encode(changed).rstrip(b"=").decode())
    for each in sorted(forged):
        with pytest.raises(InvalidRequestError, match="none that a check"):
            verify(running, each)


def test_a_token_of_another_package_is_refused(running: Running) -> None:
    token = cut(running)
    running.import_("other", payloads=FILES)
    with pytest.raises(InvalidRequestError):
        running.packages.verify(ME, "other", "", 0, Steps(), token)


def test_a_token_of_another_store_is_refused(running: Running, tmp_path: Path) -> None:
    token = cut(running)
    with Running(tmp_path / "elsewhere") as elsewhere:
        elsewhere.import_(payloads=FILES)
        with pytest.raises(InvalidRequestError):
            verify(elsewhere, token)


def test_a_token_of_a_package_in_whose_place_another_one_lies_is_told_from_a_forged_one(
    tmp_path: Path,
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    Running(one).close()
    shutil.copytree(one, other)
    with Running(one) as running:
        running.import_(payloads=FILES)
        token = cut(running)
    # of the same store, version and number
    with Running(other) as running:
        running.import_(payloads=FILES)
        with pytest.raises(WrongStateError, match="was replaced"):
            verify(running, token)


def test_a_token_of_a_generation_that_was_followed_is_told_from_a_forged_one(
    running: Running,
) -> None:
    token = cut(running)
    running.add_variant(ScopeKey("ocr", "", "det", "qnn"))
    with pytest.raises(WrongStateError, match="generation 1"):
        verify(running, token)
    assert verify(running, token, "1", 1).payloads == 3


def test_a_token_of_a_version_that_is_current_no_more_is_told_from_a_forged_one(
    running: Running,
) -> None:
    token = cut(running)
    running.import_(version="2", payloads=FILES)
    with pytest.raises(WrongStateError, match="of 1,"):
        verify(running, token)
    assert verify(running, token, "1").payloads == 3


def test_no_error_holds_the_token(running: Running) -> None:
    token = cut(running)
    with pytest.raises(SealcarError) as caught:
        verify(running, token + "A")
    assert token[:20] not in str(caught.value)
