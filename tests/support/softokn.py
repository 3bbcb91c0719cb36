"""Another PKCS#11 token in software, which knows OAEP with SHA-256: NSS's, of Debian's libnss3."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from support import eps, softhsm

if TYPE_CHECKING:
    from pathlib import Path

_INITIALISE: Final = """
import sys
import pkcs11

library, token, pin = sys.argv[1:]
with pkcs11.lib(library).get_token(token_label=token).open(rw=True, so_pin="") as session:
    session.init_pin(pin)
"""


def missing() -> str:
    """Return why there can be no token here; empty if there can."""
    try:
        ctypes.CDLL("libsoftokn3.so")
    except OSError:
        return "needs NSS: apt-get install libnss3"
    return ""


class NssToken:
    """A token of its own directory, with the tests' name and PIN. One a process.

    Attributes:
        folder: of its files.
        library: the module to load.
        pin_file: the PIN.
    """

    def __init__(self, folder: Path) -> None:
        os.environ["NSS_SOFTOKN_PARAMETERS"] = (
            f"configDir='sql:{folder}' secmod='secmod.db' dbTokenDescription='{softhsm.TOKEN}'"
        )
        self.folder = folder
        self.library = eps.build("softokn_module.c")
        self.pin_file = folder / "pin"
        self.pin_file.touch(0o600)
        self.pin_file.write_text(softhsm.PIN + "\n")
        command = [sys.executable, "-c", _INITIALISE, str(self.library)]
        subprocess.run([*command, softhsm.TOKEN, softhsm.PIN], check=True, capture_output=True)

    def make_pair(self, label: str, *, bits: int = 0, extractable: bool = False) -> bytes:
        """Make a key pair of P-256, or of RSA with so many bits; return its public half, DER."""
        size = str(bits) if bits else ""
        return softhsm.act(self.library, "pair", label, "01", size, "yes" if extractable else "no")
