"""A program of the environment `.venv-bench`: what others do with the same bytes.

`python peer_program.py versions`: prints which of them are installed, as JSON.
`python peer_program.py make PEER PLAIN FOLDER`: seals a plain file for a peer, in a folder.
`python peer_program.py read PEER FOLDER`: reads it into memory once, and says how long it took.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import child

if TYPE_CHECKING:
    from collections.abc import Callable

STAGE: Final = "bytes in memory"
_AAD: Final = b"bench"
_PIPE: Final = 1 << 20
# a key pair that everybody knows, of RFC 8032, 7.1: it signs what cryptotensors seals
_PRIVATE: Final = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
_PUBLIC: Final = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def _tink_primitive(place: Path) -> Any:  # noqa: ANN401  (tink publishes no types)
    import tink  # noqa: PLC0415  (each peer only where it is asked for)
    from tink import secret_key_access, streaming_aead  # noqa: PLC0415  (the same)

    streaming_aead.register()
    kept = place / "keyset"
    if not kept.exists():
        template = streaming_aead.streaming_aead_key_templates.AES256_GCM_HKDF_1MB
        made = tink.new_keyset_handle(template)
        serialized = tink.proto_keyset_format.serialize(made, secret_key_access.TOKEN)
        kept.write_bytes(serialized)
    handle = tink.proto_keyset_format.parse(kept.read_bytes(), secret_key_access.TOKEN)
    return handle.primitive(streaming_aead.StreamingAead)


def _make_tink(plain: Path, place: Path) -> None:
    target = (place / "sealed").open("wb")
    with _tink_primitive(place).new_encrypting_stream(target, _AAD) as stream:
        stream.write(plain.read_bytes())


def _tink(place: Path) -> Callable[[], object]:
    primitive = _tink_primitive(place)

    def read() -> object:
        source = (place / "sealed").open("rb")
        with primitive.new_decrypting_stream(source, _AAD) as stream:
            return stream.read()

    return read


def _cryptotensors_keys() -> dict[str, dict[str, str]]:
    def text(value: bytes) -> str:
        return base64.b64encode(value).decode()

    private, public = (text(bytes.fromhex(each)) for each in (_PRIVATE, _PUBLIC))
    return {
        "enc_key": {"kty": "oct", "alg": "aes256gcm", "kid": "e", "k": text(bytes(range(32)))},
        "sign_key": {"kty": "okp", "alg": "ed25519", "kid": "s", "d": private, "x": public},
    }


def _make_cryptotensors(plain: Path, place: Path) -> None:
    import numpy as np  # noqa: PLC0415  (each peer only where it is asked for)
    from cryptotensors.numpy import save_file  # noqa: PLC0415  (the same)

    tensors = {"blob": np.fromfile(plain, np.uint8)}
    save_file(tensors, place / "sealed", config=_cryptotensors_keys())


def _cryptotensors(place: Path) -> Callable[[], object]:
    # it imports numpy when it opens the first file, which isn't reading
    import numpy as np  # noqa: PLC0415  (each peer only where it is asked for)
    from cryptotensors import safe_open  # noqa: PLC0415  (the same)

    np.empty(0)

    def read() -> object:
        sealed = str(place / "sealed")
        with safe_open(sealed, framework="numpy", config=_cryptotensors_keys()) as opened:
            return opened.get_tensor("blob")

    return read


def _make_pyrage(plain: Path, place: Path) -> None:
    from pyrage import encrypt_file, x25519  # noqa: PLC0415  (each peer only where asked for)

    identity = x25519.Identity.generate()
    (place / "identity").write_text(f"{identity}\n")
    encrypt_file(str(plain), str(place / "sealed"), [identity.to_public()])


def _pyrage(place: Path) -> Callable[[], object]:
    from pyrage import decrypt, x25519  # noqa: PLC0415  (each peer only where it is asked for)

    identity = x25519.Identity.from_str((place / "identity").read_text().strip())
    return lambda: decrypt((place / "sealed").read_bytes(), [identity])


def _make_age(plain: Path, place: Path) -> None:
    identity, age = place / "identity", _installed("age")
    subprocess.run([_installed("age-keygen"), "-o", identity], check=True, capture_output=True)
    lines = identity.read_text().splitlines()
    recipient = next(line.split()[-1] for line in lines if line.startswith("# public key"))
    subprocess.run([age, "-r", recipient, "-o", place / "sealed", plain], check=True)
    (place / "size").write_text(str(plain.stat().st_size))


def _age(place: Path) -> Callable[[], object]:
    command = [_installed("age"), "-d", "-i", str(place / "identity"), str(place / "sealed")]

    def read() -> object:
        found = bytearray(int((place / "size").read_text()))
        view, done = memoryview(found), 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, pipesize=_PIPE) as age:
            assert age.stdout
            while got := os.readv(age.stdout.fileno(), [view[done:]]):
                done += got
        return found

    return read


def _installed(command: str) -> str:
    found = shutil.which(command)
    assert found, command
    return found


MAKERS: Final = {
    "tink": _make_tink,
    "cryptotensors": _make_cryptotensors,
    "pyrage": _make_pyrage,
    "age": _make_age,
}
READERS: Final = {"tink": _tink, "cryptotensors": _cryptotensors, "pyrage": _pyrage, "age": _age}


def _versions() -> dict[str, str]:
    found = {}
    for name in ("tink", "cryptotensors", "pyrage"):
        try:
            importlib.import_module(name)
            found[name] = version(name)
        except ImportError:
            continue
    return found


def main(role: str, arguments: list[str]) -> None:
    """Do what the command line says."""
    if role == "versions":
        sys.stdout.write(json.dumps(_versions()))
    elif role == "make":
        peer, plain, place = arguments
        MAKERS[peer](Path(plain), Path(place))
    else:
        read = READERS[arguments[0]](Path(arguments[1]))

        def work() -> tuple[dict[str, float], object]:
            begun = time.perf_counter()
            found = read()
            return {STAGE: time.perf_counter() - begun}, found

        child.answer(work)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
