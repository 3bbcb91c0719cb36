"""What an execution provider says of a compiled model, before it sees a byte of it.

A provider leaves a text in what it compiles, and any build of it can say later what that text means
here: `OrtEpFactory.ValidateCompiledModelCompatibilityInfo`, reached as
`get_model_compatibility_for_ep_devices`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.names import shown
from sealcar.ort import abi, runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealcar.ort.runtime import Device

_FUNCTION: Final = "get_model_compatibility_for_ep_devices"


@dataclass(frozen=True)
class Verdict:
    """What a provider says of a compatibility string.

    Attributes:
        score: what it is worth when variants are compared; None: it isn't chosen.
        reason: in words.
        refused: the provider said that it can't run such a model; False also where it failed.
    """

    score: int | None
    reason: str
    refused: bool = False

    @property
    def certain(self) -> bool:
        """Whether the provider recognised the text and can run the model."""
        return bool(self.score)


_SAID_NOTHING: Final = Verdict(0, "the provider says nothing of its compatibility string")
# as OrtCompiledModelCompatibility names them; the scores are the runtime's own
_VERDICTS: Final = {
    "EP_SUPPORTED_OPTIMAL": Verdict(100, "the provider calls it optimal"),
    "EP_SUPPORTED_PREFER_RECOMPILATION": Verdict(
        50, "the provider runs it, but would rather have it compiled anew"
    ),
    "EP_UNSUPPORTED": Verdict(
        None, "the provider doesn't support what it was compiled for", refused=True
    ),
}


def judge(devices: Sequence[Device], compatibility: str) -> Verdict:
    """Return what the provider of these devices says of a compatibility string.

    Args:
        devices: all of one provider; none: nobody can be asked.
        compatibility: empty: there is nothing to ask.
    """
    if not compatibility:
        return Verdict(0, "it has no compatibility string")
    ask = getattr(runtime.onnxruntime().capi.onnxruntime_pybind11_state, _FUNCTION, None)
    if ask is None:
        return Verdict(0, "this ONNX Runtime can't ask a provider about a compatibility string")
    if not devices:
        return Verdict(0, "its provider has no devices that could be asked about it")
    try:
        said = ask(list(devices), compatibility)
    except abi.failures() as error:
        return Verdict(
            None, f"the provider failed to judge its compatibility string: {shown(str(error))}"
        )
    return _VERDICTS.get(said.name, _SAID_NOTHING)
