"""A real PKCS#11 token in software: SoftHSM2, of Debian's package softhsm2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARY: Final = Path("/usr/lib/softhsm/libsofthsm2.so")
PIN: Final = "48151623"
TOKEN: Final = "sealcar tests"  # noqa: S105  (its label)
_PROGRAM: Final = """
import sys
import pkcs11
from pkcs11 import Attribute, KeyType, ObjectClass

from pkcs11.util.ec import encode_ec_public_key, encode_named_curve_parameters
from pkcs11.util.rsa import encode_rsa_public_key

library, token, pin, action, label, id, bits, extractable = sys.argv[1:]
with pkcs11.lib(library).get_token(token_label=token).open(rw=True, user_pin=pin) as session:
    if action == "make":
        template = {Attribute.SENSITIVE: True, Attribute.EXTRACTABLE: extractable == "yes"}
        session.generate_key(KeyType.AES, int(bits), label=label, id=bytes.fromhex(id), store=True,
                             template=template)
    elif action == "pair":
        loose = extractable == "yes"
        hidden = {Attribute.SENSITIVE: not loose, Attribute.EXTRACTABLE: loose}
        named = {"label": label, "id": bytes.fromhex(id), "private_template": hidden}
        if bits:
            public, _ = session.generate_keypair(KeyType.RSA, int(bits), store=True, **named)
            sys.stdout.buffer.write(encode_rsa_public_key(public))
            sys.exit()
        curve = {Attribute.EC_PARAMS: encode_named_curve_parameters("secp256r1")}
        parameters = session.create_domain_parameters(KeyType.EC, curve, local=True)
        public, _ = parameters.generate_keypair(store=True, **named)
        sys.stdout.buffer.write(encode_ec_public_key(public))
    else:
        kinds = (ObjectClass.SECRET_KEY, ObjectClass.PRIVATE_KEY, ObjectClass.PUBLIC_KEY)
        for kind in kinds:
            wanted = {Attribute.CLASS: kind, Attribute.LABEL: label}
            for key in list(session.get_objects(wanted)):
                key.destroy()
"""


def missing() -> str:
    """Return why there can be no token here; empty if there can."""
    if not LIBRARY.exists() or not shutil.which("softhsm2-util"):
        return "needs SoftHSM2: apt-get install softhsm2"
    return ""


class SoftToken:
    """A token of its own directory. One a process: the library reads its settings once.

    Keys are made and destroyed by another process, like an operator's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "tokens").mkdir()
        settings = folder / "softhsm2.conf"
        settings.write_text(f"directories.tokendir = {folder / 'tokens'}\nlog.level = ERROR\n")
        os.environ["SOFTHSM2_CONF"] = str(settings)
        command = ["softhsm2-util", "--init-token", "--free", "--label", TOKEN]
        subprocess.run(
            [*command, "--so-pin", "00000000", "--pin", PIN], check=True, capture_output=True
        )
        self.pin_file = folder / "pin"
        self.pin_file.touch(0o600)
        self.pin_file.write_text(PIN + "\n")

    def uri(self, label: str, extra: str = "") -> str:
        """Return the URI of a key."""
        return (
            f"pkcs11:token={TOKEN.replace(' ', '%20')};object={label}{extra}?module-path={LIBRARY}"
        )

    def make(self, label: str, version: str, *, bits: int = 256, extractable: bool = False) -> None:
        """Make a key that is one version."""
        self._act("make", label, version, str(bits), "yes" if extractable else "no")

    def make_pair(self, label: str, *, bits: int = 0, extractable: bool = False) -> bytes:
        """Make a key pair of P-256, or of RSA with so many bits; return its public half, DER."""
        size = str(bits) if bits else ""
        return self._act("pair", label, "01", size, "yes" if extractable else "no")

    def destroy(self, label: str) -> None:
        """Destroy every version of a key."""
        self._act("destroy", label, "", "", "")

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Pull the token out during a block."""
        tokens, aside = self._folder / "tokens", self._folder / "aside"
        tokens.rename(aside)
        tokens.mkdir()
        try:
            yield
        finally:
            tokens.rmdir()
            aside.rename(tokens)

    def _act(self, *arguments: str) -> bytes:
        return act(LIBRARY, *arguments)


def act(library: Path, *arguments: str) -> bytes:
    """Make or destroy keys in a token of the tests' name, as the program above says."""
    command = [sys.executable, "-c", _PROGRAM, str(library), TOKEN, PIN]
    return subprocess.run([*command, *arguments], check=True, capture_output=True).stdout
