"""The control plane that judges is a real one: it binds once, refuses strangers, and survives a kill."""

from __future__ import annotations

from tests.kube.control_plane import ControlPlane, node, pod, wait_for


def _bind(plane: ControlPlane, name: str, target: str) -> int:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default"},
        "target": {"kind": "Node", "name": target},
    }
    return plane.ask("POST", f"/api/v1/namespaces/default/pods/{name}/binding", binding)[0]


def test_a_pod_is_bound_once(plane: ControlPlane) -> None:
    plane.add_nodes([node("a"), node("b")])
    plane.create("/api/v1/namespaces/default/pods", pod("once", schedulerName="nobody"))
    assert _bind(plane, "once", "a") == 201
    assert _bind(plane, "once", "b") == 409
    assert plane.get("/api/v1/namespaces/default/pods/once")["spec"]["nodeName"] == "a"


def test_what_was_written_is_there_after_a_kill(plane: ControlPlane) -> None:
    plane.create("/api/v1/namespaces/default/pods", pod("kept", schedulerName="nobody"))
    plane.kill()
    plane.start()
    assert plane.get("/api/v1/namespaces/default/pods/kept")["metadata"]["name"] == "kept"


def test_the_real_scheduler_binds_to_hollow_nodes(plane: ControlPlane) -> None:
    plane.add_nodes([node(f"hollow-{index}") for index in range(10)])
    plane.start_scheduler()
    plane.create_many("/api/v1/namespaces/default/pods", [pod(f"w-{index}") for index in range(50)])

    def all_bound() -> bool:
        return all(
            one["spec"].get("nodeName") for one in plane.pods() if one["metadata"]["name"].startswith("w-")
        )

    wait_for(all_bound, 60, "the real scheduler has not bound all pods")
