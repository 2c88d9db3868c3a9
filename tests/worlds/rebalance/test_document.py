"""VMAgent's notes on DeployEnv by their own text: its attributes, and the example of nodes and pods."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the extra learn")

from proreus.envs import DeployEnv
from proreus.worlds.rebalance.windows.datasets.layout import read_layout
from proreus.worlds.rebalance.windows.model import windows_of

NODES = """
{
  "node1":{
    "total_cpu": 100,
    "total_mem": 100,
    "remain_cpu": 0,
    "remain_mem": 40,
    "pods":[{
      "pod_name": "pod1",
      "request_cpu": 50,
      "request_mem": 60,
      "assigned_cpu": 100,
      "assigned_mem": 60
    }]
  }
}
"""
"""The example of the notes; their "..." and the comma before it are left out."""


def env_of(tmp_path: Path) -> DeployEnv:
    """A node as in the example, and an empty one beside it; the pod has a request in every window."""
    document = json.loads(NODES)
    document["node2"] = {"total_cpu": 100, "total_mem": 100, "remain_cpu": 100, "remain_mem": 100, "pods": []}
    (tmp_path / "nodes.json").write_text(json.dumps(document))
    deployment = read_layout(tmp_path / "nodes.json")
    window = np.arange(20)
    return DeployEnv(
        windows_of("notes", deployment, window, np.zeros(20, dtype=np.int64), np.zeros((20, 2))), horizon=5
    )


def test_nodes_are_those_of_the_example(tmp_path: Path) -> None:
    env = env_of(tmp_path)
    env.reset(seed=1)
    assert env.n_node == 2 and list(env.nodes) == ["node1", "node2"]
    told = env.nodes["node1"]
    expected = json.loads(NODES)["node1"]
    assert {name: told[name] for name in expected if name != "pods"} == {
        name: value for name, value in expected.items() if name != "pods"
    }
    (pod,) = told["pods"]
    assert {name: pod[name] for name in expected["pods"][0]} == expected["pods"][0]


def test_they_follow_what_is_done(tmp_path: Path) -> None:
    env = env_of(tmp_path)
    _, info = env.reset(seed=1)
    before = env.t
    assert before == info["window"]
    env.step(1)  # pod 0 to node 1
    assert env.t == before
    assert [pod["pod_name"] for pod in env.nodes["node2"]["pods"]] == ["pod1"] and not env.nodes["node1"][
        "pods"
    ]
    env.step(2)  # stop: the window is served
    assert env.t == before + 1 and env.n_node == 2


def test_pods_share_by_what_they_ask_for(tmp_path: Path) -> None:
    document = json.loads(NODES)
    document["node1"]["pods"].append(
        {"pod_name": "pod2", "request_cpu": 150, "request_mem": 20, "assigned_cpu": 0, "assigned_mem": 0}
    )
    document["node2"] = {"total_cpu": 10, "total_mem": 10, "pods": []}
    (tmp_path / "nodes.json").write_text(json.dumps(document))
    deployment = read_layout(tmp_path / "nodes.json")
    windows = windows_of("notes", deployment, np.arange(20), np.zeros(20, dtype=np.int64), np.zeros((20, 2)))
    env = DeployEnv(windows, horizon=5)
    env.reset(seed=1)
    first, second = env.nodes["node1"]["pods"]
    assert (first["assigned_cpu"], second["assigned_cpu"]) == (25, 75)
    assert (first["assigned_mem"], second["assigned_mem"]) == (60, 20)
    assert (env.nodes["node1"]["remain_cpu"], env.nodes["node1"]["remain_mem"]) == (0, 20)
