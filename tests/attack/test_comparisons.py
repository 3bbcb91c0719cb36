"""How long a comparison takes tells nothing of a tag: none is made with `==`.

Read out of the source, since a difference of nanoseconds can't be measured reliably in a test. What
is compared otherwise is public, and listed here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sealcar_server

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(sealcar_server.__file__).parent
# what a value is called that an attacker would want to guess byte by byte
GUESSED: Final = re.compile(
    r"(^|_|\.)(tags?|macs?|commitment|digests?|sha256|signature|hash|hmac|token|label|secret|pin"
    r"|passphrase|key)(\(|$|\b)",
    re.IGNORECASE,
)
# a length, a name in a table, an attribute of a key: the comparison's text and why it may be plain
PUBLIC: Final = {
    "hashlib.sha256(rest).hexdigest() == digest": "of the audit log's own cut line",
    "hashlib.sha256(content.view).digest() == digest": "of a key file that nobody else can write",
    "digest != seen.record": "a record's hash: the record lies in the store",
    "found.digest != digest": "a record's hash",
    "tree_uri({one.name: one.sha256 for one in self.arrived}) != self.uri": "the caller's own",
    "hashlib.sha256(text).digest() != opened.digest": "a record's hash",
    "found.record != self._opened.digest": "a record's hash, from a token whose tag was right",
    "fields.text('label') != label": "in an envelope whose tag was right",
    "key.public_key() == certificate.public_key()": "public keys",
    "_hash(self.staging, asset_folder(candidate.uri)) != candidate.uri": "a hash of ciphertext",
    "(sequence is None) != (mac is None)": "whether both were given",
    "bytes(content.view[:len(passphrase.TITLE)]) == passphrase.TITLE": "how a file begins",
    "key != name": "a name in a manifest",
    "self._client.token == used": "the daemon's own, twice",
    "one.key != own": "names of objects in a bucket",
}
KINDS: Final = (ast.Eq, ast.NotEq)


def comparisons() -> Iterator[tuple[str, str]]:
    """Yield file and text of every comparison of something that might be guessed."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], KINDS):
                sides = [node.left, *node.comparators]
                if any(isinstance(side, ast.Constant) for side in sides):
                    continue
                if any(GUESSED.search(ast.unparse(side)) for side in sides):
                    yield str(path.relative_to(ROOT)), ast.unparse(node)


def is_size(text: str) -> bool:
    return bool(re.match(r"len\(|.*VALUE_LEN", text)) or " len(" in text


def test_no_tag_or_digest_is_compared_but_in_constant_time() -> None:
    found = [(path, text) for path, text in comparisons() if not is_size(text)]
    secret = [one for one in found if one[1] not in PUBLIC]
    assert secret == [], "use hmac.compare_digest, or say in PUBLIC why it needn't be"


def test_every_place_that_decides_by_a_tag_compares_in_constant_time() -> None:
    deciding = {
        "sealing/derivation.py",
        "sealing/reader.py",
        "access/audit/verifying.py",
        "service/resuming.py",
        "service/sealed_arriving.py",
        "service/sharing.py",
        "service/verifying.py",
    }
    using = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "hmac.compare_digest(" in path.read_text()
    }
    assert deciding <= using


def test_what_is_listed_as_public_is_still_compared() -> None:
    assert set(PUBLIC) <= {text for _, text in comparisons()}
