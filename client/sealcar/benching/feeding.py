"""Inputs for a first inference of any model, and what its answer comes down to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sealcar.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.ort.runtime import Session, Untyped

_TYPES: Final = {
    "float": "f4",
    "double": "f8",
    "float16": "f2",
    "bool": "?",
    **{f"int{bits}": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits // 8}" for bits in (8, 16, 32, 64)},
}
_MOST: Final = 1 << 28


def feed(session: Session, dims: Mapping[str, int], path: str) -> dict[str, Any]:
    """Return inputs: out of a file, or random fractions where numbers are real, and else zeros.

    Args:
        session: whose inputs.
        dims: what stands for names in place of dimensions; 1 if it isn't there.
        path: of an .npz; empty: they are made.

    Raises:
        InvalidRequestError: none can be made; the message says of which input, and the remedy.
    """
    import numpy as np  # noqa: PLC0415  (the runtime brings it along)

    if path:
        try:
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except (OSError, ValueError) as error:
            raise InvalidRequestError(f"--input {path!a} is no .npz that can be read") from error
    return {each.name: _made(each, dims) for each in session.get_inputs()}


def _made(info: Untyped, dims: Mapping[str, int]) -> Untyped:
    import numpy as np  # noqa: PLC0415  (the runtime brings it along)

    kind = _TYPES.get(info.type.removeprefix("tensor(").removesuffix(")"))
    shape = [_dimension(each, dims) for each in info.shape]
    if kind is None or math.prod(shape) > _MOST:
        raise InvalidRequestError(
            f"input {info.name!a}, {info.type}, can't be made up; give one with --input FILE.npz"
        )
    if kind[0] == "f":
        return np.random.default_rng(0).random(shape).astype(kind)
    # indices and lengths: nothing else is sure to be in range
    return np.zeros(shape, kind)


def _dimension(value: object, dims: Mapping[str, int]) -> int:
    return value if isinstance(value, int) and value > 0 else dims.get(str(value), 1)


def condensed(outputs: list[Any]) -> tuple[float, ...]:
    """Return a number for each output, to see whether two loads answer alike."""
    import numpy as np  # noqa: PLC0415  (the runtime brings it along)

    return tuple(
        float(np.abs(np.nan_to_num(np.asarray(each, np.float64))).sum())
        if isinstance(each, np.ndarray) and each.dtype.kind in "fiub"
        else 0.0
        for each in outputs
    )
