"""Objects that Kubernetes puts into every namespace, and that clients wait for; without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.controllers.instructions import CreateObject, Instruction, UpdateObject
from proreus.engine.objects.kinds import CONFIG_MAP, SERVICE, SERVICE_ACCOUNT
from proreus.engine.objects.metadata import Object, deleting, name_of

ROOT_CERTIFICATE, CERTIFICATE_KEY = "kube-root-ca.crt", "ca.crt"
"""The ConfigMap with the certificate by which the API is known, and its key."""
ACCOUNT = "default"
_ABOUT = "kubernetes.io/description"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the API server of this cluster when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
)


def complete(
    namespace: Object, account: Object | None, certificate: Object | None, authority: str
) -> list[Instruction]:
    """What the namespace lacks of the two; authority: PEM, "" where nobody has said it yet."""
    if deleting(namespace):
        return []
    name = name_of(namespace)
    instructions: list[Instruction] = []
    if account is None:
        instructions.append(CreateObject(SERVICE_ACCOUNT, service_account(name)))
    if authority and certificate is None:
        instructions.append(CreateObject(CONFIG_MAP, root_certificate(name, authority)))
    elif authority and certificate is not None and _stated(certificate) != authority:
        stated = {**(certificate.get("data") or {}), CERTIFICATE_KEY: authority}
        instructions.append(UpdateObject(CONFIG_MAP, {**certificate, "data": stated}))
    return instructions


def service_account(namespace: str) -> Object:
    """The account that pods have which state none; nothing is granted to it."""
    return {
        "apiVersion": SERVICE_ACCOUNT.api_version,
        "kind": SERVICE_ACCOUNT.kind,
        "metadata": {"name": ACCOUNT, "namespace": namespace},
    }


def root_certificate(namespace: str, authority: str) -> Object:
    """The certificate (PEM) by which the API is known."""
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {
            "name": ROOT_CERTIFICATE,
            "namespace": namespace,
            "annotations": {_ABOUT: _DESCRIPTION},
        },
        "data": {CERTIFICATE_KEY: authority},
    }


def kubernetes_service(port: int) -> Object:
    """The API as a Service: headless, since no address here leads elsewhere than where it listens."""
    spec: dict[str, Any] = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
    }
    labels = {"component": "apiserver", "provider": "kubernetes"}
    metadata = {"name": "kubernetes", "namespace": "default", "labels": labels}
    return {"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, "metadata": metadata, "spec": spec}


def _stated(certificate: Mapping[str, Any]) -> str:
    return str((certificate.get("data") or {}).get(CERTIFICATE_KEY, ""))
