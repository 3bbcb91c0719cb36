"""Prints doubles digit by digit as the reference implementation does.

It uses the Grisu2 algorithm, whose digits always read back as the same double but aren't always the
shortest or closest ones, so they differ from Python's `repr` now and then.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final, NamedTuple

_FRACTION: Final = 52
_BIAS: Final = 1075
_BITS: Final = 64
_ALPHA: Final = -60
_MIN_DECIMAL: Final = -300
_DECIMAL_STEP: Final = 8
# decimal exponents up to which digits are written out
_MAX_PLAIN: Final = 15
_MIN_PLAIN: Final = -4


class _Float(NamedTuple):
    """f · 2^e, unsigned."""

    f: int
    e: int

    def normalised(self) -> _Float:
        shift = _BITS - self.f.bit_length()
        return _Float(self.f << shift, self.e - shift)

    def times(self, other: _Float) -> _Float:
        return _Float((self.f * other.f + (1 << 63)) >> _BITS, self.e + other.e + _BITS)


def print_double(value: float) -> str:
    """Return the text of a finite double."""
    sign = "-" if struct.pack(">d", value)[0] & 0x80 else ""
    if not value:
        return f"{sign}0.0"
    digits, exponent = _shortest(abs(value))
    return sign + _layout(digits, exponent)


def _layout(digits: str, exponent: int) -> str:
    point = len(digits) + exponent
    if len(digits) <= point <= _MAX_PLAIN:
        return digits + "0" * exponent + ".0"
    if 0 < point <= _MAX_PLAIN:
        return f"{digits[:point]}.{digits[point:]}"
    if _MIN_PLAIN < point <= 0:
        return "0." + "0" * -point + digits
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{digits[0]}{rest}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"


def _shortest(value: float) -> tuple[str, int]:
    """Return digits d and exponent x so that d · 10^x lies in the value's rounding interval."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    biased, fraction = bits >> _FRACTION, bits & ((1 << _FRACTION) - 1)
    exact = (
        _Float(fraction | 1 << _FRACTION, biased - _BIAS) if biased else _Float(fraction, 1 - _BIAS)
    )
    upper = _Float(2 * exact.f + 1, exact.e - 1).normalised()
    closer = fraction == 0 and biased > 1
    lower = _Float(4 * exact.f - 1, exact.e - 2) if closer else _Float(2 * exact.f - 1, exact.e - 1)
    lower = _Float(lower.f << (lower.e - upper.e), upper.e)
    power, decimal = _power_for(upper.e)
    middle, low, high = (part.times(power) for part in (exact.normalised(), lower, upper))
    digits, exponent = _generate(high.f - 1, -high.e, high.f - low.f - 2, high.f - 1 - middle.f)
    return digits, exponent - decimal


def _generate(high: int, fraction_bits: int, delta: int, distance: int) -> tuple[str, int]:
    one = 1 << fraction_bits
    whole, part = high >> fraction_bits, high & (one - 1)
    digits: list[int] = []
    left = len(str(whole))
    while left:
        left -= 1
        digit, whole = divmod(whole, 10**left)
        digits.append(digit)
        rest = (whole << fraction_bits) + part
        if rest <= delta:
            return _rounded(digits, distance, delta, rest, 10**left << fraction_bits), left
    while True:
        part *= 10
        digits.append(part >> fraction_bits)
        part &= one - 1
        delta *= 10
        distance *= 10
        left -= 1
        if part <= delta:
            return _rounded(digits, distance, delta, part, one), left


def _rounded(digits: list[int], distance: int, delta: int, rest: int, unit: int) -> str:
    while (
        rest < distance
        and delta - rest >= unit
        and (rest + unit < distance or distance - rest > rest + unit - distance)
    ):
        digits[-1] -= 1
        rest += unit
    return "".join(map(str, digits))


def _power_for(exponent: int) -> tuple[_Float, int]:
    """Return the power of ten that brings a binary exponent into range, and its exponent."""
    wanted = _ALPHA - exponent - 1
    # as integers are divided in C: towards zero
    scaled = abs(wanted) * 78913 >> 18
    k = scaled + 1 if wanted > 0 else -scaled
    index = (-_MIN_DECIMAL + k + _DECIMAL_STEP - 1) // _DECIMAL_STEP
    decimal = _MIN_DECIMAL + index * _DECIMAL_STEP
    return _power_of_ten(decimal), decimal


@cache
def _power_of_ten(exponent: int) -> _Float:
    """Return 10^exponent with 64 significant bits, rounded to nearest."""
    top, bottom = (10**exponent, 1) if exponent >= 0 else (1, 10**-exponent)
    shift = _BITS + bottom.bit_length() - top.bit_length()
    scaled = _divide(top, bottom, shift)
    if scaled.bit_length() > _BITS:
        shift -= 1
        scaled = _divide(top, bottom, shift)
    return _Float(scaled, -shift)


def _divide(top: int, bottom: int, shift: int) -> int:
    if shift >= 0:
        top <<= shift
    else:
        bottom <<= -shift
    return (2 * top + bottom) // (2 * bottom)
