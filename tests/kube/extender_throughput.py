"""Pods a second of a real kube-scheduler alone, with the extender by names, and with whole nodes sent to it.

KUBEBUILDER_ASSETS=~/.cache/proreus/kube-assets python -m tests.kube.extender_throughput 1000 600
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.kube.control_plane import ControlPlane, control_plane, node, pod, wait_for
from tests.kube.real.test_extender import configured, started_extender

_PODS = "/api/v1/namespaces/default/pods"


def main(nodes: int, pods: int) -> None:
    """One row for each way, over the same API server and nodes."""
    with tempfile.TemporaryDirectory() as made, control_plane(Path(made)) as plane:
        plane.add_nodes([node(f"n{index}") for index in range(nodes)])
        plane.start_scheduler()
        _bind(plane, "kube-scheduler alone", pods)
        for what, policy, by_names in (
            ("extender, learned", "learned", True),
            ("extender, kube", "kube", True),
            ("extender, learned, whole nodes", "learned", False),
        ):
            folder = Path(made) / what.replace(", ", "-")
            folder.mkdir()
            with started_extender(plane, folder, "--policy", policy) as doors:
                plane.start_scheduler(configured(doors["extender"], nodeCacheCapable=by_names))
                _bind(plane, what, pods)


def _bind(plane: ControlPlane, what: str, pods: int) -> None:
    """Until all of them have a node; then they are gone, and so is the scheduler."""
    began = time.monotonic()
    asked = {"cpu": "100m", "memory": "128Mi"}
    plane.create_many(_PODS, [pod(f"pod-{index}", asked) for index in range(pods)])
    wait_for(lambda: all(one["spec"].get("nodeName") for one in plane.pods("default")), 600, what, 0.3)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{what}: {pods} pods in {seconds:.1f} s, {pods / seconds:.0f} a second\n")
    sys.stdout.flush()
    plane.stop_schedulers()
    plane.ask("DELETE", _PODS, {"kind": "DeleteOptions", "gracePeriodSeconds": 0})
    wait_for(lambda: not plane.pods("default"), 120, "the pods stay")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
