"""The server of `proreus bench extender`: an extender that follows a generated cluster in memory.

python -m proreus.bench.extender_server NODES POLICY FILE    # FILE: where the port goes once it answers
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

from proreus.kubeagents.extender.service import ExtenderService, ExtenderServiceOptions
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.fake import FakeApiServer
from proreus.model.files import write_atomically

PODS_EACH = 10
_IMAGES = 20
_START_SECONDS = 600.0
Object = dict[str, Any]


def node_object(index: int) -> Object:
    """A node as a kubelet registers it: labels, conditions and the images that it has, some 4 kB."""
    name = f"node-{index:05}"
    size = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"}
    now = "2026-01-01T00:00:00Z"
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": "as reported by the kubelet of this node",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind in kinds
    ]
    images = [
        {"names": [f"images.example/team/app-{image}:v1.{image}"], "sizeBytes": 50_000_000 + image}
        for image in range(_IMAGES)
    ]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{index % 3}",
        "node.kubernetes.io/instance-type": "m5.8xlarge",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {},
        "status": {"capacity": size, "allocatable": size, "conditions": conditions, "images": images},
    }


def pod_object(name: str, app: int, node: str = "") -> Object:
    """A pod of one of a dozen applications."""
    requests = {"cpu": f"{100 * (1 + app % 6)}m", "memory": f"{256 * (1 + app % 4)}Mi"}
    container = {"name": "main", "image": f"app-{app % 12}:v1", "resources": {"requests": requests}}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": {"app": f"app-{app % 12}"},
    }
    spec: Object = {"schedulerName": "default-scheduler", "containers": [container]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def generated(nodes: int) -> FakeApiServer:
    """A cluster of so many nodes with ten pods each."""
    server = FakeApiServer()
    server.put("namespaces", {"metadata": {"name": "default"}})
    for index in range(nodes):
        made = node_object(index)
        server.put("nodes", made)
        for place in range(PODS_EACH):
            number = index * PODS_EACH + place
            server.put("pods", pod_object(f"pod-{number}", number, made["metadata"]["name"]))
    return server


def main(words: list[str]) -> int:
    """Serve until told to end."""
    nodes, policy, told = int(words[0]), words[1], Path(words[2])
    service = ExtenderService(ExtenderServiceOptions(policy), lambda: KubeClient(generated(nodes)))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        service.start(_START_SECONDS)
        write_atomically(told, str(service.open_extender("127.0.0.1", 0)).encode())
        ended.wait()
    finally:
        service.stop(1.0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
