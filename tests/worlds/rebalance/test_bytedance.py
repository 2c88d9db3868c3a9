"""ByteDance's snapshots: the published figures, and files that are wrong."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proreus.model.errors import InputError
from proreus.worlds.rebalance.decision import Migrate
from proreus.worlds.rebalance.snapshots.datasets.bytedance import read_snapshot
from proreus.worlds.rebalance.snapshots.simulation.world import SnapshotWorld
from proreus.worlds.rebalance.snapshots.state import fragment_cores, fragment_rate, free_cores, machines_of
from tests.real_data import real_data


def numa(node: int, total: float = 44, free: float = 8) -> dict[str, Any]:
    """One NUMA node of a machine."""
    return {
        "node": node,
        "total_cpu": total,
        "free_cpu": free,
        "memory_huge_total_mb": 1000.0,
        "memory_huge_free_mb": 500.0,
    }


SOUND: dict[str, Any] = {
    "cluster_list": [
        {
            "host_info": [{"node_id": "a", "numa": [numa(0), numa(1)]}],
            "vm_instance": [
                {
                    "instance_id": "x",
                    "host_id": "a",
                    "numa": [{"node": 1, "cpu": 4, "mem_mb": 100.0}],
                    "allow_migration": False,
                }
            ],
        },
        {
            "host_info": [{"node_id": "b", "numa": [numa(1, total=52, free=44), numa(0)]}],
            "vm_instance": [
                {
                    "instance_id": "y",
                    "host_id": "b",
                    "numa": [{"node": n, "cpu": 8, "mem_mb": 100.0} for n in (0, 1)],
                }
            ],
        },
    ]
}


def written(folder: Path, content: Any) -> Path:
    """A file with that JSON."""
    path = folder / "snapshot.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_file_becomes_columns(tmp_path: Path) -> None:
    snapshot = read_snapshot(written(tmp_path, SOUND))
    assert snapshot.machines == ("a", "b") and snapshot.vms == ("x", "y")
    assert snapshot.free[:, :, 0].tolist() == [[8, 8], [8, 44]]
    assert snapshot.demand.tolist() == [[4, 100], [8, 100]]
    assert snapshot.double.tolist() == [False, True]
    assert snapshot.numa.tolist() == [1, 0]
    assert snapshot.movable.tolist() == [False, True]
    assert snapshot.group.tolist() == [0, 1]


def broken(path: list[Any], value: Any) -> dict[str, Any]:
    """The sound file with one value replaced, or removed where it is None."""
    content = copy.deepcopy(SOUND)
    place: Any = content
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return content


HOST = ["cluster_list", 0, "host_info", 0]
VM = ["cluster_list", 1, "vm_instance", 0]


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (["cluster_list"], None, "cluster_list: the field is missing"),
        (["cluster_list"], {}, "cluster_list: a list is needed here"),
        ([*HOST, "node_id"], 3, r"host_info\[0\].node_id: a text is needed here"),
        ([*HOST, "numa", 0, "free_cpu"], -1, r"numa\[0\].free_cpu: -1 is negative"),
        ([*HOST, "numa", 0, "free_cpu"], 45, r"numa\[0\].free_cpu: more is free than there is"),
        ([*HOST, "numa", 0, "free_cpu"], 1.5, "1.5 is not a whole number"),
        ([*HOST, "numa", 0, "free_cpu"], True, "a number is needed here"),
        ([*HOST, "numa", 0, "node"], 2, "2 is not a NUMA node"),
        ([*HOST, "numa", 0, "node"], 1, "this NUMA node is listed twice"),
        ([*HOST, "numa"], [numa(0)], "a machine has 2 NUMA nodes"),
        (["cluster_list", 1, "host_info", 0, "node_id"], "a", "'a' is listed twice"),
        ([*VM, "host_id"], "z", "there is no machine 'z'"),
        ([*VM, "instance_id"], "x", "'x' is listed twice"),
        ([*VM, "numa"], [], "runs on one NUMA node or on both"),
        ([*VM, "numa", 0, "cpu"], 4, "what it takes of the two NUMA nodes differs"),
        ([*VM, "numa", 0, "node"], 1, "the same NUMA node is listed twice"),
        ([*VM, "allow_migration"], "yes", "true or false is needed here"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, path: list[Any], value: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_snapshot(written(tmp_path, broken(path, value)))


def contradicting(used: float) -> dict[str, Any]:
    """The sound file in which x takes so much memory of NUMA node 1 of a, where 500 of 1000 MiB are free."""
    content = broken(["cluster_list", 0, "vm_instance", 0, "numa", 0, "mem_mb"], used)
    content["cluster_list"][0]["vm_instance"][0]["allow_migration"] = True
    return content


@pytest.mark.parametrize(("used", "total", "free"), [(600.0, 1000, 400), (1200.0, 1200, 0)])
def test_a_node_with_more_free_and_in_use_than_it_has_is_mended_with_an_account(
    tmp_path: Path, used: float, total: int, free: int
) -> None:
    snapshot = read_snapshot(written(tmp_path, contradicting(used)))
    assert (snapshot.total[0, 1, 1], snapshot.free[0, 1, 1]) == (total, free)
    assert snapshot.free[:, :, 1].sum() == 3 * 500 + free
    assert "1 of 4 NUMA nodes list more memory free and in use than they have" in snapshot.mended
    assert f"a/1: 1,000 MiB, 500 free and {int(used):,} in use" in snapshot.mended


def test_a_plan_may_touch_a_mended_node(tmp_path: Path) -> None:
    world = SnapshotWorld(read_snapshot(written(tmp_path, contradicting(600.0))))
    world.machines.free[1, 0, 1] = 600  # room for x at b
    world.apply(Migrate(0, 1, 0))
    after = world.snapshot_now()
    assert after.free[0, 1, 1] == after.total[0, 1, 1] == 1000


def test_strict_refuses_a_snapshot_that_contradicts_itself(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"snapshot\.json: 1 of 4 NUMA nodes .* \(--strict\)"):
        read_snapshot(written(tmp_path, contradicting(600.0)), strict=True)
    assert not read_snapshot(written(tmp_path, SOUND), strict=True).mended


def test_a_snapshot_made_by_hand_may_not_contradict_itself(tmp_path: Path) -> None:
    sound = read_snapshot(written(tmp_path, SOUND))
    with pytest.raises(ValueError, match="more free and in use than it has"):
        replace(sound, free=sound.total)


def test_a_file_that_is_not_json_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"cluster_list":\n [,]}', encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.json:2: not valid JSON"):
        read_snapshot(path)


def test_the_public_snapshot_has_its_published_figures() -> None:
    data = real_data("vms")
    snapshot = read_snapshot(data / "vms/vmr2l_bytedance/reset_vm_pm_id_clear2.json")
    machines = machines_of(snapshot, 16, within_clusters=False)
    assert (len(snapshot.machines), len(snapshot.vms), int(snapshot.double.sum())) == (279, 2089, 290)
    assert (fragment_cores(machines), free_cores(machines)) == (1362, 1394)
    assert round(fragment_rate(machines), 3) == 0.977
    assert snapshot.movable.all()
    assert snapshot.mended.startswith("45 of 558 NUMA nodes list more memory free and in use than they have")
