"""Which execution providers a session would have, in which order and for which devices.

Session options can't be asked. So a session of a model without nodes is made with them, which gets
the providers that every other session would get, and takes as long as the providers take to begin.
Of their devices a session tells nothing; but from 1.32 on the runtime's own choice among variants
shows which kinds of devices it is made for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.errors import RuntimeSupportError
from sealcar.ort import abi, runtime
from sealcar.ort.emptymodels import nodeless_model

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sealcar.ort.runtime import Device, Session, SessionOptions
    from sealcar.ort.sessions import Provider

CPU: Final = "CPUExecutionProvider"
# a package without models, for the providers that sealcar knows
_KINDS: Final = Path(__file__).parent / "device_kinds"


@dataclass(frozen=True)
class Configured:
    """Providers in the order in which they are asked for the nodes of a model.

    Attributes:
        names: the first is the one that variants are chosen for.
    """

    names: tuple[str, ...]
    _session_options: SessionOptions = field(repr=False)
    _by_name: bool = field(repr=False)
    # some providers judge compiled models only after a session with them began
    _session: Session = field(repr=False)

    @property
    def first(self) -> str:
        """The provider that variants are chosen for."""
        return self.names[0]

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Devices that the first provider is configured for, in the runtime's order."""
        return self.devices_of(self.first)

    @property
    def kinds(self) -> list[str]:
        """Kinds of those devices: of "cpu", "gpu", "npu"."""
        return sorted({kind_of(each) for each in self.devices})

    def devices_of(self, ep: str) -> tuple[Device, ...]:
        """Return the devices that a provider is configured for.

        Of one that isn't the first or isn't known to sealcar, and before 1.32 of any, they are all
        that it has here, since the runtime doesn't tell which of them were chosen.
        """
        if self._by_name and ep != CPU:
            return ()  # only devices that were added, or chosen by a policy, are known as such
        found = devices_of(ep)
        kinds = {kind_of(each) for each in found}
        chooses = hasattr(runtime.onnxruntime(), "ModelPackageContext")
        if len(kinds) > 1 and chooses and ep == self.first:
            kinds = _configured_kinds(self._session_options, ep, kinds)
        return tuple(each for each in found if kind_of(each) in kinds)

    def devices_for(self, kind: str) -> tuple[Device, ...]:
        """Return what the first provider is asked about: one device of a kind; empty: all."""
        if not kind:
            return self.devices
        return tuple(each for each in self.devices if kind_of(each) == kind.lower())[:1]


def configured(
    session_options: SessionOptions, providers: Sequence[Provider] | None = None
) -> Configured:
    """Find out which providers sessions with these options have.

    Args:
        session_options: they are left as they are. Where they let the runtime write files of its
            own, as a profile, the session that is made here writes one too.
        providers: as InferenceSession takes them.

    Raises:
        RuntimeSupportError: no session can be made with them.
    """
    given = list(providers) if providers is not None else None
    try:
        session = runtime.onnxruntime().InferenceSession(
            nodeless_model(), session_options, providers=given, enable_fallback=0
        )
    except abi.failures() as error:
        raise RuntimeSupportError(
            f"no session can be made with these options, whatever the model: {error}"
        ) from error
    return Configured(tuple(session.get_providers()), session_options, bool(given), session)


def devices_of(ep: str) -> list[Device]:
    """Return the devices that a provider has on this machine."""
    return [each for each in runtime.onnxruntime().get_ep_devices() if each.ep_name == ep]


def kind_of(device: Device) -> str:
    """Return "cpu", "gpu" or "npu"."""
    return str(device.device.type.name).lower()


def _configured_kinds(session_options: SessionOptions, ep: str, kinds: Collection[str]) -> set[str]:
    """Let the runtime choose from components with one variant each, for one kind of device."""
    ort = runtime.onnxruntime()
    context = ort.ModelPackageContext(str(_KINDS))
    known = context.get_component_names()
    wanted = ort.ModelPackageOptions(session_options)
    parts = {kind: f"{ep}.{kind}" for kind in kinds}
    return {
        kind for kind, part in parts.items() if part not in known or _chooses(context, wanted, part)
    }


def _chooses(context: runtime.Untyped, wanted: runtime.Untyped, component: str) -> bool:
    try:
        context.select_component(component, wanted)
    except RuntimeError:  # no variant fits
        return False
    return True
