"""The notes' JSON layout of nodes and pods: their example, there and back, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.data.json_tree import entry_of
from proreus.model.errors import InputError
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig, generate_windows
from proreus.worlds.rebalance.windows.datasets.layout import deployment_from, read_layout, read_lists
from proreus.worlds.rebalance.windows.datasets.tables import read_huawei_stream, read_monitor, read_requests
from proreus.worlds.rebalance.windows.model import Deployment
from proreus.worlds.rebalance.windows.simulation.layout import layout_now, layout_of
from proreus.worlds.rebalance.windows.simulation.world import WindowsWorld
from tests.real_data import real_data

NOTES: dict[str, Any] = {
    "node1": {
        "total_cpu": 100,
        "total_mem": 100,
        "remain_cpu": 0,
        "remain_mem": 40,
        "pods": [
            {
                "pod_name": "pod1",
                "request_cpu": 50,
                "request_mem": 60,
                "assigned_cpu": 100,
                "assigned_mem": 60,
            }
        ],
    }
}


def deployment(layout: dict[str, Any]) -> Deployment:
    """The deployment of a layout that is in no file."""
    return deployment_from(entry_of(layout, Path("layout.json")))


def test_the_example_of_the_notes_comes_out_as_it_stands_there() -> None:
    assert layout_of(deployment(NOTES)) == NOTES
    assert list(layout_of(deployment(NOTES))["node1"]) == list(NOTES["node1"])


def test_two_pods_share_cpu_by_request_and_take_memory_as_asked() -> None:
    layout = json.loads(json.dumps(NOTES))
    layout["node1"]["pods"].append({"pod_name": "pod2", "request_cpu": 150, "request_mem": 10})
    node = layout_of(deployment(layout))["node1"]
    assert [pod["assigned_cpu"] for pod in node["pods"]] == [25, 75]
    assert [pod["assigned_mem"] for pod in node["pods"]] == [60, 10]
    assert (node["remain_cpu"], node["remain_mem"]) == (0, 30)


def _in_order(world: WindowsWorld, again: Deployment) -> list[int]:
    """A layout lists pods by node: where each of them stood in the world."""
    return [world.windows.deployment.pod_names.index(name) for name in again.pod_names]


def test_a_run_from_an_exported_layout_starts_from_rest(tmp_path: Path) -> None:
    """What pods asked for in the last window is not asked for again on top of the windows."""
    windows = generate_windows(WindowsConfig(nodes=3, pods=7, windows=4), 1)
    world = WindowsWorld(windows)
    world.stop()
    (tmp_path / "pods.json").write_text(json.dumps(layout_now(world)))
    again = read_layout(tmp_path / "pods.json")
    assert sorted(again.pod_names) == sorted(windows.deployment.pod_names)
    assert again.standing.sum() == pytest.approx(windows.deployment.standing.sum())


def test_two_lists_in_a_folder_are_a_layout(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(json.dumps([{"total_cpu": 10, "total_mem": 10}] * 2))
    (tmp_path / "pods.json").write_text(json.dumps([{"request_cpu": 1, "request_mem": 2}] * 3))
    layout = read_layout(tmp_path)
    assert layout.where.tolist() == [0, 0, 1] and layout.standing[:, 1].tolist() == [2, 2, 2]
    with pytest.raises(InputError, match=r"folder of nodes\.json"):
        read_layout(tmp_path / "nodes.json")


def test_a_layout_survives_the_way_through_a_file(tmp_path: Path) -> None:
    world = WindowsWorld(generate_windows(WindowsConfig(nodes=3, pods=7, windows=4), 1))
    world.move(0, 2)
    world.stop()
    layout = layout_now(world)
    file = tmp_path / "pods.json"
    file.write_text(json.dumps(layout))
    again = read_layout(file)
    assert layout_of(again, "proportional", world.asked()[_in_order(world, again)]) == layout
    assert (again.standing == world.windows.deployment.standing[_in_order(world, again)]).all()
    assert again.pod_names[int(np.flatnonzero(again.where == 2)[0])] == "pod1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total_cpu": -1}, "node1.total_cpu"),
        ({"total_cpu": True}, "node1.total_cpu"),
        ({"total_mem": 0}, "above 0"),
        ({"pods": 3}, "node1"),
        ({"pods": [3]}, r"node1.pods\[0\]"),
        ({"pods": [{"request_cpu": "5", "request_mem": 1}]}, r"node1.pods\[0\].request_cpu"),
        ({"pods": []}, "at least one node and one pod"),
    ],
)
def test_a_bad_layout_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps({"node1": {**NOTES["node1"], **change}}))
    with pytest.raises(InputError, match=message) as caught:
        read_layout(file)
    assert str(file) in str(caught.value)


def test_what_is_no_json_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_layout(file)


def test_requests_of_a_table_go_to_their_pods_or_in_turn(tmp_path: Path) -> None:
    layout = json.loads(json.dumps(NOTES))
    layout["node1"]["pods"].append({"pod_name": "pod2", "request_cpu": 1, "request_mem": 1})
    file = tmp_path / "requests.csv"
    file.write_text("time,pod,cpu,mem\n0,pod2,1,2\n10,,3,4\n20,,5,6\n700,pod1,7,8\n")
    windows = read_requests(file, deployment(layout))
    assert windows.windows == 3
    assert windows.first.tolist() == [0, 1, 3, 3, 3, 4, 4]
    assert windows.amount[:, 0].tolist() == [3, 1, 5, 7]
    for row, message in (("5,pod9,1,1", "pod9"), ("5,pod1,-1,1", "cpu"), ("x,,1,1", "time")):
        file.write_text(f"time,pod,cpu,mem\n{row}\n")
        with pytest.raises(InputError, match=message):
            read_requests(file, deployment(layout))


def test_real_files_become_windows() -> None:
    folder = real_data("vms") / "vms"
    monitor = read_monitor(folder / "k8s_monitor_2022" / "pod_monitor_5min.csv")
    assert len(monitor.deployment.pod_names) == 8 and len(monitor.deployment.node_names) == 2
    assert len(monitor.amount) == 4787 and monitor.windows >= 599
    start = read_lists(folder / "k8s_monitor_2022" / "nodes.json", folder / "k8s_monitor_2022" / "pods.json")
    assert np.bincount(start.where).tolist() == [5] * 10 and (start.standing == 5).all()
    stream = read_huawei_stream(folder / "huawei_east_1" / "Huawei-East-1-lt.csv")
    assert len(stream.amount) == 116_313
    assert stream.windows == 8_927
