"""The Pod Security Standards' level "restricted", as the Kubernetes project words it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_VOLUMES: Final = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_SECCOMP: Final = {"RuntimeDefault", "Localhost"}
_SYSCTLS: Final = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
}
_SELINUX: Final = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}


def violations(pod: dict[str, Any]) -> list[str]:
    """Return what of a pod the level doesn't allow: of the pod, then "container: …"."""
    return [*_of_pod(pod), *_of_containers(pod)]


def _of_pod(pod: dict[str, Any]) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield name
    for volume in pod.get("volumes", ()):
        for kind in volume.keys() - {"name"} - _VOLUMES:
            yield f"volume of kind {kind}"
    context = pod.get("securityContext", {})
    for each in context.get("sysctls", ()):
        if each["name"] not in _SYSCTLS:
            yield f"sysctl {each['name']}"
    yield from _of_context(context)


def _of_containers(pod: dict[str, Any]) -> Iterator[str]:
    shared = pod.get("securityContext", {})
    for container in pod.get("initContainers", []) + pod["containers"]:
        name, own = container["name"], container.get("securityContext", {})
        # what the container doesn't say, the pod says
        context = {**shared, **own}
        for found in (*_of_context(context), *_of_powers(own)):
            yield f"{name}: {found}"
        if context.get("runAsNonRoot") is not True:
            yield f"{name}: may run as root"
        if context.get("seccompProfile", {}).get("type") not in _SECCOMP:
            yield f"{name}: no seccomp profile"
        if any("hostPort" in port for port in container.get("ports", ())):
            yield f"{name}: a port of the host"


def _of_context(context: dict[str, Any]) -> Iterator[str]:
    """Check what a pod and a container both may say."""
    if context.get("runAsUser") == 0:
        yield "runs as root"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield "process of the host"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in _SELINUX or {"user", "role"} & selinux.keys():
        yield "SELinux options"
    profile = context.get("appArmorProfile", {}).get("type", "RuntimeDefault")
    if profile not in {"RuntimeDefault", "Localhost"}:
        yield "no AppArmor profile"


def _of_powers(context: dict[str, Any]) -> Iterator[str]:
    """Check what only a container says."""
    if context.get("privileged"):
        yield "privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"
    capabilities = context.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()):
        yield "keeps capabilities"
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "adds capabilities"
    if context.get("procMount", "Default") != "Default":
        yield "sees /proc unmasked"
