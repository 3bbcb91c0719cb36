from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.certificates import Authority

from sealcar.errors import ConfigurationError, DeniedError, NotFoundError
from sealcar_server.access.certificates import identity
from sealcar_server.access.policy import Policy, Right
from sealcar_server.access.principal import NOBODY, Principal
from sealcar_server.access.spiffe import is_id, is_pattern, matches

if TYPE_CHECKING:
    from pathlib import Path

OCR = "spiffe://example.org/ns/prod/sa/ocr"


def policy_of(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    path.chmod(0o600)
    return Policy.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spiffe://",
        "spiffe://example.org",
        "spiffe://example.org/",
        "spiffe:///ns",
        "spiffe://example.org//ns",
        "spiffe://example.org/ns/",
        "spiffe://example.org/ns/../prod",
        "spiffe://example.org/./ns",
        "spiffe://example.org/n s",
        "spiffe://example.org/%6es",
        "spiffe://example.org/ns?a=b",
        "spiffe://example.org/ns#a",
        "spiffe://example.org:443/ns",
        "spiffe://user@example.org/ns",
        "spiffe://Example.org/ns",
        "spiffe://exämple.org/ns",
        "spiffe://example.org/ns\n",
        "SPIFFE://example.org/ns",
        "https://example.org/ns",
        "spiffe://example.org/*",
        "spiffe://example.org/" + "a" * 2048,
        "x" + OCR,
    ],
)
def test_what_is_no_spiffe_id_is_none(text: str) -> None:
    assert not is_id(text)


@pytest.mark.parametrize("text", [OCR, "spiffe://a/b", "spiffe://a.b-c_d/...", "spiffe://a/B.-_9"])
def test_a_spiffe_id_is_one_and_a_pattern_of_itself_alone(text: str) -> None:
    assert is_id(text)
    assert is_pattern(text)
    assert matches(text, text)
    assert not matches(text, text + "x")
    assert not matches(text, text + "/x")


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (
            "spiffe://example.org/ns/prod/*",
            ["spiffe://example.org/ns/prod/a", "spiffe://example.org/ns/prod/a/b"],
            ["spiffe://example.org/ns/prod", "spiffe://example.org/ns/production", OCR[:-20]],
        ),
        (
            "spiffe://example.org/*",
            [OCR],
            ["spiffe://example.org.evil/a", "spiffe://example.or/g", "spiffe://evil/example.org/a"],
        ),
    ],
)
def test_a_pattern_is_for_what_lies_below_it(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    assert is_pattern(pattern)
    assert all(matches(pattern, one) for one in matching)
    assert not any(matches(pattern, one) for one in others)


@pytest.mark.parametrize(
    "text",
    ["*", "spiffe://*", "spiffe://*/a", "spiffe://a*/b", "spiffe://a/*/b", "spiffe://a/b*", "a/*"],
)
def test_a_star_stands_at_the_end_of_a_path_and_nowhere_else(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no SPIFFE ID"):
        policy_of(tmp_path, f'[[grant]]\nspiffe = "{text}"\npackages = ["*"]\nrights = ["read"]\n')


@pytest.mark.parametrize("other", ["uid = 1000", "gid = 100", 'listener = "default"'])
def test_a_grant_is_for_callers_over_tls_or_for_others(tmp_path: Path, other: str) -> None:
    with pytest.raises(ConfigurationError, match="write two grants"):
        policy_of(
            tmp_path,
            f'[[grant]]\nspiffe = "{OCR}"\n{other}\npackages = ["*"]\nrights = ["read"]\n',
        )


def test_no_grant_of_one_kind_is_about_a_caller_of_the_other(tmp_path: Path) -> None:
    policy = policy_of(
        tmp_path,
        f"""
        [[grant]]
        uid = 1000
        packages = ["of-uids"]
        rights = ["read"]
        [[grant]]
        gid = 100
        listener = "default"
        packages = ["of-uids"]
        rights = ["read"]
        [[grant]]
        spiffe = "{OCR}"
        packages = ["of-workloads"]
        rights = ["read"]
        [[grant]]
        spiffe = "spiffe://example.org/*"
        packages = ["of-all"]
        rights = ["read"]
        """,
    )
    remote, local = Principal.remote(OCR), Principal("default", 1000, 100)
    assert policy.allows(remote, Right.READ, "of-workloads")
    assert policy.allows(remote, Right.READ, "of-all")
    assert policy.allows(local, Right.READ, "of-uids")
    for caller, package in ((remote, "of-uids"), (local, "of-workloads"), (local, "of-all")):
        assert not policy.allows(caller, Right.LIST, package)
        with pytest.raises(NotFoundError):
            policy.require(caller, Right.READ, package)


def test_no_grant_can_name_the_uid_that_callers_over_tls_have(tmp_path: Path) -> None:
    assert Principal.remote(OCR).uid == NOBODY
    with pytest.raises(ConfigurationError, match="must be a number"):
        policy_of(tmp_path, f'[[grant]]\nuid = {NOBODY}\npackages = ["*"]\nrights = ["read"]\n')


def test_an_identity_is_the_only_uri_of_a_certificate_that_is_good() -> None:
    authority = Authority()
    assert identity(authority.issue(OCR).certificate, "example.org") == OCR
    named = authority.issue(OCR, dns=("ocr.example.org",), addresses=("127.0.0.1",))
    assert identity(named.certificate, "example.org") == OCR
    for issued, why in (
        (authority.issue(), "has 0 URIs"),
        (authority.issue(dns=("ocr.example.org",)), "has 0 URIs"),
        (authority.issue(OCR, "spiffe://example.org/other"), "has 2 URIs"),
        (authority.issue(OCR, "https://example.org/"), "has 2 URIs"),
        (authority.issue(OCR, OCR), "has 2 URIs"),
        (authority.issue("https://example.org/ns"), "is no SPIFFE ID"),
        (authority.issue("spiffe://example.org"), "is no SPIFFE ID"),
        (authority.issue("spiffe://example.org/ns/../sa"), "is no SPIFFE ID"),
        (authority.issue("spiffe://example.com/ns"), "of another trust domain"),
        (authority.issue("spiffe://example.org.evil/ns"), "of another trust domain"),
        (authority.issue(OCR, days=(-2, -1)), "has expired"),
        (authority.issue(OCR, authority=True), "is an authority's"),
    ):
        with pytest.raises(DeniedError, match=why):
            identity(issued.certificate, "example.org")
    with pytest.raises(DeniedError, match="can't be read"):
        identity(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "example.org")
