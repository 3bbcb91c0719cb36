"""Whether a compiled variant can run here, as far as its description tells: nothing is decrypted.

What isn't known is no reason to refuse: then loading itself finds out. So it is of variants that
are compiled for nobody in particular, of texts that a provider says nothing of, and of SDK versions
that aren't written in the same way.

The SDK's version is where it was when the variant was compiled: in its EPContext nodes, and so in
`executor_info["epcontext"]["sdk_versions"]`, where `sealcar.ort.compile` puts it. Providers don't
tell the one that they bring along (`OrtEpDevice` metadata has their own version only); so a model
that holds nothing is compiled to see it. A newer provider may run what an older SDK compiled, and
none promises the reverse: only a newer SDK than here is refused, and only if the provider doesn't
know the variant's compatibility string, by which it would decide better.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import RuntimeSupportError
from sealcar.names import shown
from sealcar.ort import compatibility, probing, runtime
from sealcar.ort.configured import configured

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sealcar.onnxscan import ModelScan
    from sealcar.ort.configured import Configured
    from sealcar.ort.runtime import SessionOptions
    from sealcar.ort.sessions import Provider
    from sealcar.ort.sources import Source

NAMESPACE: Final = "epcontext"
SDK_VERSIONS: Final = "sdk_versions"
# major, minor, patch; what follows is a build's own
_VERSION: Final = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9}){0,2})(?:[.+-].*)?", re.DOTALL)
_ANYWAY: Final = "or pass allow_unsupported=True to have it loaded all the same"


def info_of(found: ModelScan) -> dict[str, object]:
    """Return what to write into `executor_info` of a compiled model, by namespace."""
    versions = sorted({node.ep_sdk_version for node in found.ep_contexts if node.ep_sdk_version})
    return {NAMESPACE: {SDK_VERSIONS: versions}} if versions else {}


def check(
    variant: Source,
    session_options: SessionOptions,
    providers: Sequence[Provider] | None = None,
) -> None:
    """Check that a variant's provider is there, supports it, and isn't older than its compiler.

    Raises:
        RuntimeSupportError: it can't run here; the message says why, and what can be done.
    """
    try:
        _check(variant, session_options, providers)
    except RuntimeSupportError as error:
        raise variant.name.placed(error, "open") from error.__cause__


def _check(
    variant: Source, session_options: SessionOptions, providers: Sequence[Provider] | None
) -> None:
    versions = _sdk_versions(variant)
    compiled = variant.compatibility or versions or _has_blobs(variant)
    if not variant.ep or not compiled:
        return
    wanted = configured(session_options, providers)
    if variant.ep not in wanted.names:
        raise RuntimeSupportError(_absent(variant.ep, wanted))
    verdict = compatibility.judge(wanted.devices_of(variant.ep), variant.compatibility)
    if verdict.refused:
        raise RuntimeSupportError(
            f"execution provider {shown(variant.ep)} can't run the variant here: by its "
            f"compatibility string {shown(variant.compatibility)}, {verdict.reason}; compile it "
            f"for this machine, {_ANYWAY}"
        )
    if versions and not verdict.certain:
        _check_sdk(variant.ep, versions, probing.sdk_versions(session_options, variant.ep))


def newer(version: str, here: str) -> bool | None:
    """Return whether an SDK's version is newer than another; None: they can't be compared.

    At most three numbers count, so that builds of one release are equal.
    """
    pair = _VERSION.fullmatch(version), _VERSION.fullmatch(here)
    if pair[0] is None or pair[1] is None:
        return None
    numbers = [[int(number) for number in found[1].split(".")] for found in pair if found]
    if len(numbers[0]) != len(numbers[1]):
        return None
    return numbers[0] > numbers[1]


def _check_sdk(ep: str, versions: Iterable[str], here: Iterable[str]) -> None:
    for version in versions:
        for own in here:
            if newer(version, own):
                raise RuntimeSupportError(
                    f"the variant was compiled with SDK {shown(version)} of {shown(ep)}, and here "
                    f"is the older {shown(own)}; install a newer plugin, or compile the variant "
                    f"with this one, {_ANYWAY}"
                )


def _sdk_versions(variant: Source) -> list[str]:
    noted = variant.executor_info.get(NAMESPACE)
    versions = noted.get(SDK_VERSIONS) if isinstance(noted, dict) else None
    if not isinstance(versions, list):
        return []
    return [each for each in versions if isinstance(each, str)]


def _has_blobs(variant: Source) -> bool:
    return any(payload.kind == "blob" for payload in variant.payloads)


def _absent(ep: str, wanted: Configured) -> str:
    known = {each.ep_name for each in runtime.onnxruntime().get_ep_devices()}
    known.update(runtime.onnxruntime().get_available_providers())
    remedy = (
        "add it to the session options"
        if ep in known
        else "register its plugin with sealcar.ort.register_ep, and add it to the session options"
    )
    there = ", ".join(wanted.names)
    return (
        f"the variant is compiled for {shown(ep)}, and the session has only {there}; {remedy}, "
        f"{_ANYWAY}, as where the plugin had another name when it was compiled"
    )
