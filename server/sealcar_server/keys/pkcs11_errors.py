"""What a token's answer means to whoever wanted a key."""

from __future__ import annotations

from typing import Final

import pkcs11

from sealcar.errors import KeyRefusedError, KeyUnavailableError, SealcarError

RETRY: Final = 5.0
# a new login is worth a try
LOGIN_LOST: Final = (
    pkcs11.DeviceRemoved,
    pkcs11.KeyHandleInvalid,
    pkcs11.ObjectHandleInvalid,
    pkcs11.SessionClosed,
    pkcs11.SessionHandleInvalid,
    pkcs11.TokenNotPresent,
    pkcs11.UserNotLoggedIn,
)
# never tried again: a token locks itself after a few wrong PINs
PIN_REFUSED: Final = (
    pkcs11.PinExpired,
    pkcs11.PinIncorrect,
    pkcs11.PinInvalid,
    pkcs11.PinLenRange,
    pkcs11.PinLocked,
    pkcs11.UserPinNotInitialized,
)
# what doesn't decrypt: libraries don't agree on what that is
WRONG_DATA: Final = (
    pkcs11.DataInvalid,
    pkcs11.DataLenRange,
    pkcs11.EncryptedDataInvalid,
    pkcs11.EncryptedDataLenRange,
    pkcs11.FunctionFailed,
    pkcs11.GeneralError,
    pkcs11.SignatureInvalid,
)
_KEY_REFUSED: Final = (
    pkcs11.FunctionNotSupported,
    pkcs11.FunctionRejected,
    pkcs11.KeyTypeInconsistent,
    pkcs11.MechanismInvalid,
)


def meaning(error: pkcs11.PKCS11Error, place: str) -> SealcarError:
    """Return our error for one of the token's; its class is all that is told of it."""
    name = type(error).__name__
    if isinstance(error, PIN_REFUSED):
        return KeyRefusedError(
            f"{place}: the token refuses the PIN ({name}); correct the file that `secret` names, "
            "then restart: it isn't tried again, since a token locks itself after a few attempts"
        )
    if isinstance(error, _KEY_REFUSED):
        return KeyRefusedError(f"{place}: the token can't use this key ({name})")
    return KeyUnavailableError(f"{place}: the token doesn't answer ({name})", retry_after=RETRY)
