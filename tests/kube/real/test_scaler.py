"""`proreus kube scaler` writes the scale of a Deployment that a real API server keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.kube.control_plane import ControlPlane, wait_for
from tests.serving.scaler.replicas import NUMBERS, FakeReplicas, Says


def test_replicas_follow_the_load(plane: ControlPlane, tmp_path: Path) -> None:
    replicas = FakeReplicas()
    try:
        replicas.places["a"] = Says(running=60, waiting=300, kv_use=0.99)
        asked = {
            **NUMBERS,
            "enabled": "true",
            "policy": "threshold",
            "metrics": replicas.urls("a"),
            "interval": "0.5",
            "frozenSeconds": "0",
            "most": "4",
        }
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "llm",
                "annotations": {f"scaler.proreus.io/{key}": value for key, value in asked.items()},
            },
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "llm"}},
                "template": {
                    "metadata": {"labels": {"app": "llm"}},
                    "spec": {"containers": [{"name": "main", "image": "llm:1"}]},
                },
            },
        }
        path = "/apis/apps/v1/namespaces/default/deployments"
        plane.create(path, deployment)
        words = [sys.executable, "-m", "proreus", "kube", "scaler", "--kubeconfig", str(plane.kubeconfig())]
        ready = tmp_path / "ready.json"
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*words, "--http-port", "0", "--interval", "0.5", "--json", str(ready)],
                stdout=log,
                stderr=log,
            )
        try:
            wait_for(
                lambda: plane.get(f"{path}/llm")["spec"]["replicas"] > 1,
                120,
                "the Deployment was not scaled",
            )
            assert json.loads(ready.read_text())["http"]["port"] > 0
            lease = plane.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/proreus-scaler")
            assert lease["spec"]["holderIdentity"].endswith(f"_{process.pid}")
        finally:
            process.terminate()
            assert process.wait(30) == 0, (tmp_path / "log").read_text()
        after = plane.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/proreus-scaler")
        assert not after["spec"].get("holderIdentity")  # given back, so that nobody has to wait
    finally:
        replicas.close()
