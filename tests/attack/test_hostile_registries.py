"""What a registry, or whoever can write to it, gets a client and a store to do: nothing."""

from __future__ import annotations

import base64
import copy
import json
import os
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest
from support.certificates import Authority
from support.daemon import Daemon
from support.fake_registry import FakeRegistry, Talk, digest_of, fake_registry
from support.onnx_bytes import TINY
from support.payload_packages import PlannedBytes, PlannedPackage, varied
from support.two_sides import CUSTOMER, RIGHTS, two_sides

from sealcar import errors, oci
from sealcar.exports import Recipient
from sealcar.oci import Access, Reference, Wanted, line, repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


USER: Final = "somebody"
PASSWORD: Final = "a-password-of-the-tests"  # noqa: S105  (of a registry that ends with the test)
BASIC: Final = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
AS: Final = Access(username=USER, password=PASSWORD, plain_http=True)
PAYLOADS: Final = (
    PlannedBytes("model.onnx", "model", TINY),
    PlannedBytes("blob", "blob", varied((2 << 20) + 17)),
)
REPOSITORY: Final = "models/ocr"
BLOB: Final = "c/v/blob"
CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TITLE: Final = "org.opencontainers.image.title"


@dataclass(frozen=True)
class Sealed:
    """An artifact that the customer would take."""

    manifest: dict[str, Any]
    blobs: dict[str, bytes]

    def digest(self, path: str = BLOB) -> str:
        """Return that of a layer."""
        found = (layer for layer in self.manifest["layers"] if layer["annotations"][TITLE] == path)
        return str(next(found)["digest"])


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Daemon]]:
    with two_sides(tmp_path_factory.mktemp("sides")) as both:
        with both[0].connect() as client:
            for name in ("ocr", "other"):
                client.catalogue.import_(PlannedPackage(PAYLOADS, name))
        yield both


@pytest.fixture(scope="module")
def vendor(sides: tuple[Daemon, Daemon]) -> Daemon:
    return sides[0]


@pytest.fixture(scope="module")
def customer(sides: tuple[Daemon, Daemon]) -> Daemon:
    return sides[1]


def push(vendor: Daemon, fake: FakeRegistry, name: str = "ocr", access: Access = AS) -> oci.Pushed:
    reference = Reference.parse(f"{fake.host}/{REPOSITORY}:1")
    wanted = Wanted(name, recipient=Recipient(CUSTOMER))
    with vendor.connect() as client:
        return oci.push(client.catalogue, wanted, reference, access=access)


def made(vendor: Daemon, name: str) -> Sealed:
    with fake_registry() as fake:
        push(vendor, fake, name)
        return Sealed(json.loads(fake.manifests[REPOSITORY, "1"]), fake.blobs)


@pytest.fixture(scope="module")
def sealed(vendor: Daemon) -> Sealed:
    return made(vendor, "ocr")


@pytest.fixture
def fake(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """Give a registry that has the artifact."""
    monkeypatch.setattr(repository, "_WAIT", 0.001)
    monkeypatch.setattr(line, "_WAIT", 0.001)
    with fake_registry() as running:
        running.blobs |= sealed.blobs
        running.put(REPOSITORY, "1", sealed.manifest)
        yield running


def pull(
    customer: Daemon, fake: FakeRegistry, place: str = ":1", access: Access = AS
) -> oci.Pulled:
    reference = Reference.parse(f"{fake.host}/{REPOSITORY}{place}")
    with customer.connect() as client:
        return oci.pull(client.catalogue, reference, access=access)


def refused(
    customer: Daemon,
    fake: FakeRegistry,
    kind: type[errors.SealcarError],
    place: str = ":1",
    access: Access = AS,
) -> str:
    """Expect a pull to fail with exactly this, and to leave nothing."""
    before = sorted(customer.store.rglob("*"))
    with pytest.raises(errors.SealcarError) as failed:
        pull(customer, fake, place, access)
    assert type(failed.value) is kind, failed.value
    with customer.connect() as client:
        assert list(client.catalogue.list()) == []
    _settled(lambda: sorted(customer.store.rglob("*")) == before)
    said = str(failed.value)
    assert PASSWORD not in said
    assert BASIC.split()[1] not in said
    return said


def _settled(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def test_a_blob_that_is_another_one_is_refused(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    for path in (BLOB, "c/v/model.onnx"):
        digest = sealed.digest(path)
        fake.blobs[digest] = flipped(fake.blobs[digest])
        # the daemon, which checks every byte, may be the first to notice
        refused(customer, fake, errors.NotAuthenticError)
        fake.blobs[digest] = flipped(fake.blobs[digest])
    config = sealed.manifest["config"]["digest"]
    fake.blobs[config] = fake.blobs[config].replace(b"{", b" {", 1)[: len(fake.blobs[config])]
    refused(customer, fake, errors.NotAuthenticError)


def test_a_blob_that_is_too_short_or_too_long_is_refused(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    digest = sealed.digest()
    whole = fake.blobs[digest]
    for other in (whole[:-1], b"", whole + b"x", whole * 2):
        fake.blobs[digest] = other
        refused(customer, fake, errors.TruncatedError)


def test_a_blob_that_always_breaks_off_is_given_up(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    data = sealed.blobs[sealed.digest()]

    @fake.lie("GET", sealed.digest())
    def cut(talk: Talk) -> None:
        talk.say(200, data[:1000], Content_Length=str(len(data)))
        talk.hang_up()

    refused(customer, fake, errors.UnavailableError)
    assert len([one for one in fake.heard if sealed.digest() in one.path]) < 20


def test_a_blob_that_breaks_off_after_each_byte_is_given_up(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    data = sealed.blobs[sealed.digest()]

    @fake.lie("GET", sealed.digest())
    def a_byte(talk: Talk) -> None:
        at = int(talk.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
        talk.say(206 if at else 200, data[at : at + 1], Content_Length=str(len(data) - at))
        talk.hang_up()

    refused(customer, fake, errors.UnavailableError)
    assert len([one for one in fake.heard if sealed.digest() in one.path]) < 20


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_a_blob_that_breaks_off_goes_on_where_it_was(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed, *, ranges: bool
) -> None:
    data, cuts = sealed.blobs[sealed.digest()], [1 << 20, 100, 0]

    @fake.lie("GET", sealed.digest())
    def cut(talk: Talk) -> bool:
        if not ranges:
            del talk.headers["Range"]
        if not cuts:
            return False
        talk.say(200, data[: cuts.pop()], Content_Length=str(len(data)))
        talk.hang_up()
        return True

    came = pull(customer, fake)
    asked = [one.headers.get("Range") for one in fake.heard if sealed.digest() in one.path]
    assert asked[-1] == f"bytes={1 << 20}-"
    with customer.connect() as client:
        assert client.catalogue.verify(came.name).payloads == 2
    removed(customer)


def test_a_blob_that_comes_in_chunks_is_taken(customer: Daemon, fake: FakeRegistry) -> None:
    @fake.lie("GET", "/blobs/")
    def chunked(talk: Talk) -> None:
        data = fake.blobs[talk.path.rpartition("/")[2]]
        talk.wfile.write(CHUNKED)
        for at in range(0, len(data), 100_000):
            piece = data[at : at + 100_000]
            talk.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        talk.wfile.write(b"0\r\n\r\n")

    assert pull(customer, fake).payloads == 2
    removed(customer)


def removed(customer: Daemon) -> None:
    """Leave the store as it was."""
    with customer.connect() as client:
        client.catalogue.remove("ocr", "1")


LAYER: Final = {"mediaType": "application/vnd.sealcar.payload.v1", "size": 56}
PATHS: Final = [
    "../x",
    "/etc/passwd",
    "c/v/../../../x",
    "c/v/.hidden",
    "c/v",
    "",
    "c/v/a\\b",
    "c/v/a\0b",
    "manifest.json",
    "c/v/manifest.json",
    "shared_assets/x/y",
    "c/v/" + "x" * 300,
]


@pytest.mark.parametrize("path", PATHS, ids=ascii)
def test_a_layer_whose_path_is_none_of_a_package_is_refused(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed, path: str
) -> None:
    changed = copy.deepcopy(sealed.manifest)
    changed["layers"][0]["annotations"][TITLE] = path
    fake.put(REPOSITORY, "1", changed)
    assert "bad path" in refused(customer, fake, errors.InvalidPackageError)


def _edit(manifest: dict[str, Any], *where: Any, value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return it with one value replaced."""
    changed = copy.deepcopy(manifest)
    at: Any = changed
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    return changed


DIGEST: Final = f"sha256:{'a' * 64}"
MANIFESTS: Final[dict[str, tuple[tuple[Any, ...], Any]]] = {
    "another type": (("artifactType",), "application/vnd.example.chart"),
    "no type": (("artifactType",), None),
    "an index": (("mediaType",), "application/vnd.oci.image.index.v1+json"),
    "schema": (("schemaVersion",), 1),
    "config's type": (("config", "mediaType"), "application/vnd.oci.image.config.v1+json"),
    "no config": (("config",), None),
    "a huge config": (("config", "size"), 1 << 40),
    "layer's type": (("layers", 0, "mediaType"), "application/vnd.oci.image.layer.v1.tar"),
    "no layers": (("layers",), None),
    "layers are none": (("layers",), [1, 2]),
    "another algorithm": (("layers", 0, "digest"), f"md5:{'a' * 32}"),
    "a digest with a path": (("layers", 0, "digest"), f"sha256:../{'a' * 61}"),
    "a negative size": (("layers", 0, "size"), -1),
    "a size that is true": (("layers", 0, "size"), True),
    "a fraction": (("layers", 0, "size"), 56.5),
    "a size beyond all": (("layers", 0, "size"), 1 << 70),
    "no title": (("layers", 0, "annotations"), {}),
    "the same path twice": (("layers", 0, "annotations", TITLE), "c/v/model.onnx"),
    "a file that is missing": (("layers", 0, "annotations", TITLE), "c/v/another"),
    "too few": (("layers",), []),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_is_no_sealed_package_is_refused(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed, case: str
) -> None:
    where, value = MANIFESTS[case]
    fake.put(REPOSITORY, "1", _edit(sealed.manifest, *where, value=value))
    refused(customer, fake, errors.InvalidPackageError)
    assert not [one for one in fake.heard if sealed.digest() in one.path]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null"], ids=repr)
def test_a_manifest_that_is_no_json_is_refused(
    customer: Daemon, fake: FakeRegistry, text: bytes
) -> None:
    fake.put(REPOSITORY, "1", text)
    refused(customer, fake, errors.InvalidPackageError)


def test_a_newer_kind_of_artifact_says_what_to_update(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    newer = "application/vnd.sealcar.package.v2"
    fake.put(REPOSITORY, "1", _edit(sealed.manifest, "artifactType", value=newer))
    assert "update" in refused(customer, fake, errors.UnknownFormatError)


def test_layers_that_the_record_doesnt_name_are_refused_however_many(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    layers = [
        {**LAYER, "digest": DIGEST, "annotations": {TITLE: f"c/v/{at}"}} for at in range(15_000)
    ]
    for more in (layers[:1], layers):
        every = [*sealed.manifest["layers"], *more]
        fake.put(REPOSITORY, "1", _edit(sealed.manifest, "layers", value=every))
        refused(customer, fake, errors.InvalidPackageError)


def test_a_manifest_without_an_end_is_given_up(customer: Daemon, fake: FakeRegistry) -> None:
    sent = []

    @fake.lie("GET", "/manifests/")
    def endless(talk: Talk) -> None:
        talk.say(200, Content_Length=str(1 << 40))
        while True:
            talk.wfile.write(b" " * (1 << 20))
            sent.append(1)

    refused(customer, fake, errors.NotAuthenticError)
    assert len(sent) < 32


def test_layers_that_change_places_are_refused(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    one, two = (layer["annotations"][TITLE] for layer in sealed.manifest["layers"])
    swapped = _edit(sealed.manifest, "layers", 0, "annotations", TITLE, value=two)
    swapped["layers"][1]["annotations"][TITLE] = one
    fake.put(REPOSITORY, "1", swapped)
    refused(customer, fake, errors.TruncatedError)


def test_a_package_made_of_two_is_refused(
    customer: Daemon, vendor: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    other = made(vendor, "other")
    fake.blobs |= other.blobs
    mixed = _edit(sealed.manifest, "config", value=other.manifest["config"])
    fake.put(REPOSITORY, "1", mixed)
    refused(customer, fake, errors.NotAuthenticError)


def test_another_manifest_than_was_asked_for_is_refused(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    told = digest_of(json.dumps(sealed.manifest).encode())
    fake.manifests[REPOSITORY, told] = b"{}"
    refused(customer, fake, errors.NotAuthenticError, f"@{told}")
    other = json.dumps(sealed.manifest, indent=1).encode()

    @fake.lie("GET", "/manifests/1")
    def says_one_and_gives_another(talk: Talk) -> None:
        talk.say(200, other, Docker_Content_Digest=told)

    refused(customer, fake, errors.NotAuthenticError)


def test_a_tag_that_moves_meanwhile_changes_nothing(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    first = digest_of(json.dumps(sealed.manifest).encode())

    @fake.lie("GET", f"/blobs/{sealed.manifest['config']['digest']}")
    def moves(_: Talk) -> bool:
        fake.put(REPOSITORY, "1", {"schemaVersion": 2})
        return False

    assert pull(customer, fake).digest == first
    assert len([one for one in fake.heard if "/manifests/" in one.path]) == 1
    removed(customer)


def test_credentials_dont_follow_to_where_blobs_are_redirected(
    customer: Daemon, fake: FakeRegistry, sealed: Sealed
) -> None:
    asks_for(fake, BASIC)
    with fake_registry() as elsewhere:
        elsewhere.blobs |= sealed.blobs

        @fake.lie("GET", "/blobs/")
        def redirected(talk: Talk) -> bool:
            if "Authorization" not in talk.headers:
                return False
            talk.say(307, Location=f"{elsewhere.url}{talk.path}")
            return True

        assert pull(customer, fake).payloads == 2
        assert len(elsewhere.heard) == 3
        assert not [one for one in elsewhere.heard if "Authorization" in one.headers]
    removed(customer)


def asks_for(fake: FakeRegistry, header: str) -> None:
    """Have it want this of everybody."""

    def challenge(talk: Talk) -> bool:
        if talk.headers.get("Authorization") == header:
            return False
        talk.body()
        talk.say(401, WWW_Authenticate='Basic realm="tests"')
        return True

    for method in ("GET", "HEAD", "POST", "PUT"):
        fake.lies.insert(0, (method, "/v2/", challenge))


def test_credentials_dont_follow_to_where_uploads_are_sent(
    vendor: Daemon, fake: FakeRegistry
) -> None:
    fake.blobs.clear()
    asks_for(fake, BASIC)
    with fake_registry() as elsewhere:

        @fake.lie("POST", "/uploads/")
        def elsewhere_then(talk: Talk) -> bool:
            if "Authorization" not in talk.headers:
                return False
            talk.body()
            talk.say(202, Location=f"{elsewhere.url}/uploads/1")
            return True

        elsewhere.blobs = fake.blobs
        assert push(vendor, fake).uploaded == 2
        assert len(elsewhere.heard) == 3
        assert not [one for one in elsewhere.heard if "Authorization" in one.headers]


def test_redirects_that_go_round_are_given_up(customer: Daemon, fake: FakeRegistry) -> None:
    @fake.lie("GET", "/blobs/")
    def round_and_round(talk: Talk) -> None:
        talk.say(302, Location=talk.path)

    refused(customer, fake, errors.NotAuthenticError)


ADDRESSES: Final = ["http://[", "http://[::1", "http://:0", "http://x:99999999/", "ftp://x/", "//["]


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_leads_to_no_address_is_refused(
    customer: Daemon, vendor: Daemon, fake: FakeRegistry, address: str
) -> None:
    kinds = (errors.StorageError, errors.DeniedError)
    fake.lies.append(("GET", "/blobs/", lambda talk: talk.say(307, Location=address)))
    with pytest.raises(kinds):
        pull(customer, fake)
    fake.blobs.clear()
    fake.lies.append(("POST", "/uploads/", lambda talk: talk.say(202, Location=address)))
    with pytest.raises(kinds):
        push(vendor, fake)
    realm = f'Bearer realm="{address}"'
    fake.lies = [("GET", "/v2/", lambda talk: talk.say(401, WWW_Authenticate=realm))]
    with pytest.raises(kinds):
        pull(customer, fake)


def test_an_address_that_two_readers_take_for_two_hosts_gets_no_credentials(
    customer: Daemon, fake: FakeRegistry
) -> None:
    asks_for(fake, BASIC)
    with fake_registry() as elsewhere:
        for text in (f"{elsewhere.url}\\@{fake.host}/", f"{elsewhere.url}#@{fake.host}/"):

            def redirected(talk: Talk, text: str = text) -> bool:
                if "Authorization" not in talk.headers:
                    return False
                talk.say(307, Location=text)
                return True

            fake.lies.append(("GET", "/manifests/", redirected))
            with pytest.raises(errors.SealcarError):
                pull(customer, fake)
            fake.lies.pop()
        assert not [one for one in elsewhere.heard if "Authorization" in one.headers]


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Path, Path], Path]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    ca = folder / "ca.pem"
    ca.write_bytes(authority.certificate)
    return authority.issue(addresses=("127.0.0.1",)).write(folder, "registry"), ca


def test_nothing_leads_from_tls_to_plain_http(
    customer: Daemon,
    vendor: Daemon,
    sealed: Sealed,
    certified: tuple[tuple[Path, Path], Path],
) -> None:
    access = Access(username=USER, password=PASSWORD, ca=certified[1])
    with fake_registry(certified[0]) as fake, fake_registry() as plain:
        fake.put(REPOSITORY, "1", sealed.manifest)
        plain.blobs |= sealed.blobs
        fake.lies.append(("GET", "/blobs/", lambda talk: talk.say(307, Location=plain.url)))
        assert "TLS" in refused(customer, fake, errors.DeniedError, access=access)
        fake.lies.append(
            ("POST", "/uploads/", lambda talk: talk.say(202, Location=f"{plain.url}/uploads/1"))
        )
        with pytest.raises(errors.DeniedError, match="TLS"):
            push(vendor, fake, access=access)
        realm = f'Bearer realm="{plain.url}/token",service="x"'
        fake.lies = [("GET", "/v2/", lambda talk: talk.say(401, WWW_Authenticate=realm))]
        assert "TLS" in refused(customer, fake, errors.DeniedError, access=access)
        assert plain.heard == []


def test_a_token_is_asked_for_again_when_more_rights_are_wanted(
    vendor: Daemon, customer: Daemon, fake: FakeRegistry
) -> None:
    fake.blobs.clear()

    def challenge(scope: str) -> Callable[[Talk], bool]:
        def answered(talk: Talk) -> bool:
            if talk.headers.get("Authorization") in (f"Bearer of-{scope}", "Bearer of-pull,push"):
                return False
            talk.body()
            realm = f'Bearer realm="{fake.url}/token",service="tests",scope="{scope}"'
            talk.say(401, WWW_Authenticate=realm)
            return True

        return answered

    @fake.lie("GET", "/token")
    def token(talk: Talk) -> None:
        assert talk.headers["Authorization"] == BASIC
        scope = "pull,push" if "push" in talk.path else "pull"
        talk.say(200, json.dumps({"token": f"of-{scope}"}).encode())

    fake.lies += [(method, "/v2/", challenge("pull")) for method in ("GET", "HEAD")]
    fake.lies += [(method, "/v2/", challenge("pull,push")) for method in ("POST", "PUT")]
    assert push(vendor, fake).uploaded == 2
    assert len([one for one in fake.heard if one.path.startswith("/token")]) == 2
    assert pull(customer, fake).payloads == 2
    removed(customer)


@pytest.mark.parametrize(
    "answer",
    [b"", b"{", b"[]", b'{"token": 7}', b'{"token": "a\\nb"}', b'{"token": "\xc3\xa9"}'],
    ids=repr,
)
def test_a_token_that_is_none_is_refused(
    customer: Daemon, fake: FakeRegistry, answer: bytes
) -> None:
    realm = f'Bearer realm="{fake.url}/token"'
    fake.lies = [
        ("GET", "/v2/", lambda talk: talk.say(401, WWW_Authenticate=realm)),
        ("GET", "/token", lambda talk: talk.say(200, answer)),
    ]
    refused(customer, fake, errors.DeniedError)


def test_a_challenge_that_is_a_book_is_not_read(customer: Daemon, fake: FakeRegistry) -> None:
    challenge = f'Bearer {"a" * 5000},realm="{fake.url}/token"'
    fake.lies = [("GET", "/v2/", lambda talk: talk.say(401, WWW_Authenticate=challenge))]
    assert "answers 401" in refused(customer, fake, errors.DeniedError)
    assert len(fake.heard) == 1


def test_a_token_without_an_end_is_given_up(customer: Daemon, fake: FakeRegistry) -> None:
    realm = f'Bearer realm="{fake.url}/token"'
    fake.lies = [("GET", "/v2/", lambda talk: talk.say(401, WWW_Authenticate=realm))]

    @fake.lie("GET", "/token")
    def endless(talk: Talk) -> None:
        talk.say(200, Content_Length=str(1 << 40))
        while True:
            talk.wfile.write(b" " * (1 << 20))

    refused(customer, fake, errors.NotAuthenticError)


def test_a_registry_that_gives_back_what_it_heard_gets_it_into_no_error(
    customer: Daemon, fake: FakeRegistry
) -> None:
    def told(talk: Talk) -> None:
        heard = talk.headers.get("Authorization", "")
        body = {"errors": [{"code": heard, "message": heard}, {"code": "DENIED"}]}
        talk.say(403, json.dumps(body).encode(), WWW_Authenticate=heard)

    asks_for(fake, BASIC)
    fake.lies.append(("GET", "/manifests/", told))
    assert "403 DENIED" in refused(customer, fake, errors.DeniedError)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_registry_that_can_do_nothing_is_unavailable(
    customer: Daemon, fake: FakeRegistry, status: int
) -> None:
    fake.lies.append(("GET", "/manifests/", lambda talk: talk.say(status)))
    refused(customer, fake, errors.UnavailableError)
    assert len(fake.heard) == (1 if status == 500 else 4)


def test_a_registry_that_is_silent_is_given_up(customer: Daemon, fake: FakeRegistry) -> None:
    fake.lies.append(("GET", "/manifests/", lambda _: time.sleep(0.6)))
    refused(customer, fake, errors.TimedOutError, access=Access(plain_http=True, timeout=0.2))


def test_a_manifest_that_comes_byte_by_byte_is_given_up(
    customer: Daemon, fake: FakeRegistry
) -> None:
    @fake.lie("GET", "/manifests/")
    def drips(talk: Talk) -> None:
        talk.say(200, Content_Length="1000")
        for _ in range(1000):
            talk.wfile.write(b" ")
            time.sleep(0.05)

    refused(customer, fake, errors.TimedOutError, access=Access(plain_http=True, timeout=0.3))


TRICKLES: Final = {
    "a header": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a chunk's size": (CHUNKED, b"0"),
    "a trailer": (CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n"),
}


@pytest.mark.parametrize(("begin", "more"), TRICKLES.values(), ids=TRICKLES)
def test_an_answer_that_trickles_is_given_up(
    customer: Daemon, certified: tuple[tuple[Path, Path], Path], begin: bytes, more: bytes
) -> None:
    ended = []

    def trickles(talk: Talk) -> None:
        talk.wfile.write(begin)
        for _ in range(100):
            talk.wfile.write(more)
            time.sleep(0.05)
        ended.append(talk)

    with fake_registry() as plain, fake_registry(certified[0]) as fake:
        for each in (plain, fake):
            each.lies.append(("GET", "/manifests/", trickles))
        refused(customer, plain, errors.TimedOutError, access=Access(plain_http=True, timeout=0.3))
        access = Access(ca=certified[1], timeout=0.3)
        refused(customer, fake, errors.TimedOutError, access=access)
    assert ended == []


def test_a_push_that_broke_off_goes_on_with_what_is_missing(
    vendor: Daemon, customer: Daemon, fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealcar.oci.pushing._WAIT", 0.001)
    fake.blobs.clear()
    fake.manifests.clear()
    cuts = [1, 2]

    @fake.lie("PUT", "/uploads/")
    def cut(talk: Talk) -> bool:
        if int(talk.headers["Content-Length"]) < 1 << 20 or not cuts:
            return False
        cuts.pop()
        talk.rfile.read(1 << 19)
        talk.hang_up()
        assert not fake.manifests
        return True

    sent = push(vendor, fake)
    assert (sent.uploaded, sent.present, cuts) == (2, 0, [])
    puts = [one for one in fake.heard if one.method == "PUT"]
    assert len(puts) == 6  # two payloads, one of them thrice; the record, and the manifest
    assert pull(customer, fake).digest == sent.digest
    removed(customer)


def test_a_registry_that_takes_longer_than_the_daemon_waits_gets_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealcar.oci.pushing._WAIT", 0.001)
    impatient = Daemon(tmp_path, settings={"transfer.idle_timeout": "1s"})
    impatient.grant(os.geteuid(), rights=RIGHTS)
    slow = [3.0]
    with impatient, fake_registry() as fake, impatient.connect(timeout=1.5) as client:
        large = PlannedBytes("blob", "blob", varied(24 << 20))
        client.catalogue.import_(PlannedPackage((large,), "ocr"))

        @fake.lie("PUT", "/uploads/")
        def takes_its_time(talk: Talk) -> bool:
            if slow and int(talk.headers["Content-Length"]) > 1 << 20:
                time.sleep(slow.pop())
            return False

        place = Reference.parse(f"{fake.host}/{REPOSITORY}:1")
        access = Access(plain_http=True)
        sent = oci.push(client.catalogue, Wanted("ocr"), place, access=access)
    assert (sent.uploaded, slow) == (1, [])
    assert (REPOSITORY, "1") in fake.manifests


def test_a_push_that_never_gets_on_ends_and_leaves_no_tag(
    vendor: Daemon, fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealcar.oci.pushing._WAIT", 0.001)
    fake.blobs.clear()
    fake.manifests.clear()
    fake.lies.append(("PUT", "/uploads/", lambda talk: talk.hang_up()))
    with pytest.raises(errors.UnavailableError):
        push(vendor, fake)
    assert fake.manifests == {}
    assert [one for one in fake.heard if one.method == "DELETE"]


def test_a_push_ends_whatever_a_registry_says_that_it_lacks(
    vendor: Daemon, fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealcar.oci.pushing._WAIT", 0.001)
    fake.blobs.clear()
    fake.lies.append(("HEAD", "/blobs/", lambda talk: talk.say(404)))
    assert push(vendor, fake).uploaded == 2
    assert len([one for one in fake.heard if one.method == "PUT"]) == 4
    asked = count()
    fake.lies = [
        # one that is missing, then two, and again
        ("HEAD", "/blobs/", lambda talk: talk.say(404 if next(asked) % 4 else 200)),
        ("PUT", "/uploads/", lambda talk: talk.hang_up()),
    ]
    with pytest.raises(errors.UnavailableError):
        push(vendor, fake)
    assert next(asked) < 20


@pytest.mark.parametrize("what", ["/uploads/", "/manifests/"])
def test_a_registry_that_takes_nothing_is_told_of_by_its_code(
    vendor: Daemon, fake: FakeRegistry, what: str
) -> None:
    fake.blobs.clear()

    def refuse(talk: Talk) -> None:
        talk.body()
        talk.say(400, json.dumps({"errors": [{"code": "MANIFEST_INVALID"}]}).encode())

    fake.lies.append(("PUT", what, refuse))
    with pytest.raises(errors.StorageError, match="400 MANIFEST_INVALID"):
        push(vendor, fake)


def test_a_registry_that_says_it_took_another_manifest_is_not_believed(
    vendor: Daemon, fake: FakeRegistry
) -> None:
    def took(talk: Talk) -> None:
        talk.body()
        talk.say(201, Docker_Content_Digest=DIGEST)

    fake.lies.append(("PUT", "/manifests/", took))
    with pytest.raises(errors.NotAuthenticError):
        push(vendor, fake)
