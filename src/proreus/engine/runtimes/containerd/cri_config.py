"""Pods and containers in the words of CRI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proreus.engine.runtimes.backend import ContainerPlan
from proreus.engine.runtimes.containerd import cri_pb2 as cri
from proreus.engine.runtimes.protocol import Pod
from proreus.engine.runtimes.runc.backend import MASKED, READ_ONLY
from proreus.engine.runtimes.seccomp import SeccompProfile, wanted_profile
from proreus.engine.runtimes.shim.backend import limits_of, user_of

OWN, UID = "proreus.io/runtime", "io.kubernetes.pod.uid"
"""Labels: which runtime made it, and for which pod."""
_PERIOD = 100_000
_PROFILES = {
    SeccompProfile.RUNTIME_DEFAULT: cri.SecurityProfile.RuntimeDefault,
    SeccompProfile.UNCONFINED: cri.SecurityProfile.Unconfined,
}


def sandbox_config(pod: Pod, labels: Mapping[str, str], logs: Path, attempt: int) -> cri.PodSandboxConfig:
    """A sandbox in the machine's network."""
    metadata = pod["metadata"]
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(
            name=str(metadata["name"]),
            uid=str(metadata["uid"]),
            namespace=str(metadata.get("namespace") or "default"),
            attempt=attempt,
        ),
        log_directory=str(logs),
        labels=dict(labels),
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=f"/{labels[OWN]}",
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=_namespaces()),
        ),
    )


def container_config(plan: ContainerPlan, labels: Mapping[str, str]) -> cri.ContainerConfig:
    """A container with its limits; the image's own command and environment are containerd's matter."""
    limits = limits_of(plan, 0)
    resources = cri.LinuxContainerResources(
        cpu_shares=max(2, limits.cpu_request * 1024 // 1000),
        cpu_period=_PERIOD if limits.cpu is not None else 0,
        cpu_quota=max(1000, limits.cpu * _PERIOD // 1000) if limits.cpu is not None else 0,
        memory_limit_in_bytes=limits.memory or 0,
    )
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=plan.name, attempt=plan.attempt),
        image=cri.ImageSpec(image=str(plan.container.get("image") or "")),
        command=list(plan.command),
        args=list(plan.args),
        working_dir=str(plan.container.get("workingDir") or ""),
        envs=[cri.KeyValue(key=name, value=value) for name, value in plan.environment.items()],
        mounts=[
            cri.Mount(
                container_path=mount.target, host_path=str(mount.source.resolve()), readonly=mount.read_only
            )
            for mount in plan.mounts
        ],
        devices=[
            cri.Device(container_path=f"/dev/{node.name}", host_path=str(node), permissions="rwm")
            for node in (plan.gpus.nodes if plan.gpus is not None else ())
        ],
        labels=dict(labels),
        log_path=f"{plan.name}/{plan.attempt}.log",
        stdin=bool(plan.container.get("stdin")),
        stdin_once=bool(plan.container.get("stdinOnce")),
        tty=bool(plan.container.get("tty")),
        linux=cri.LinuxContainerConfig(resources=resources, security_context=_security(plan)),
    )


def _security(plan: ContainerPlan) -> cri.LinuxContainerSecurityContext:
    context = plan.container.get("securityContext") or {}
    pod: Mapping[str, Any] = plan.pod["spec"].get("securityContext") or {}
    stated = context.get("capabilities") or {}
    uid, gid = user_of(plan, None)
    profile = wanted_profile(plan)
    groups = [*(pod.get("supplementalGroups") or ())]
    if pod.get("fsGroup") is not None:
        groups.append(pod["fsGroup"])
    return cri.LinuxContainerSecurityContext(
        capabilities=cri.Capability(
            add_capabilities=list(stated.get("add") or ()), drop_capabilities=list(stated.get("drop") or ())
        ),
        privileged=bool(context.get("privileged")),
        namespace_options=_namespaces(),
        run_as_user=cri.Int64Value(value=uid) if uid is not None else None,
        run_as_group=cri.Int64Value(value=gid) if uid is not None and gid is not None else None,
        readonly_rootfs=bool(context.get("readOnlyRootFilesystem")),
        supplemental_groups=groups,
        no_new_privs=context.get("allowPrivilegeEscalation") is not True and not context.get("privileged"),
        masked_paths=list(MASKED),
        readonly_paths=list(READ_ONLY),
        seccomp=None if profile is None else cri.SecurityProfile(profile_type=_PROFILES[profile]),
    )


def _namespaces() -> cri.NamespaceOption:
    return cri.NamespaceOption(network=cri.NODE, pid=cri.CONTAINER, ipc=cri.POD)
