"""`proreus top`: the table by itself, and the verb against a cluster whose nodes measure themselves often."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.cells import cell_len

from proreus.cli.cluster.usage_tables import NAMESPACE, NODES, PODS, cores, curve, lines, share, size
from tests.cli.runner import Proreus, assert_refused, command, environment
from tests.engine.api.live import Live, live

MIB = 1024 * 1024


def _amounts(cpu: int, memory: int) -> dict[str, int]:
    return {"cpu_milli": cpu, "memory_bytes": memory}


def _pod(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "namespace": "default",
        "name": name,
        "node": "node-1",
        "cpu_milli": 250,
        "memory_bytes": 128 * MIB,
        "disk_bytes": 3 * MIB,
        "received_per_second": None,
        "sent_per_second": None,
        "gpus": [],
        "requested": _amounts(500, 256 * MIB),
        "cpu_milli_trend": [0, 100, 250],
        **changes,
    }


NODE: dict[str, Any] = {
    "name": "a-node-with-a-long-name.of-a-large-cluster.example.org",
    "cpu_milli": 3500,
    "memory_bytes": 6 * 1024 * MIB,
    "disk_bytes": 3 * MIB,
    "disk_read_per_second": 0,
    "disk_written_per_second": 2048,
    "received_per_second": 1500,
    "sent_per_second": 99,
    "gpus": [{"busy_percent": 80}, {"busy_percent": 60}, {"busy_percent": None}],
    "allocatable": _amounts(4000, 8 * 1024 * MIB),
    "requested": _amounts(1000, 0),
    "pods": 3,
    "cpu_milli_trend": list(range(0, 4000, 270)),
}


def test_numbers_are_short_and_curves_are_relative() -> None:
    assert (cores(250), cores(128_000)) == ("250m", "128")
    assert [size(amount) for amount in (0, 999, 1000, 3 * MIB, 250 * MIB, 5 << 40)] == [
        "0",
        "999",
        "1.0Ki",
        "3.0Mi",
        "250Mi",
        "5.0Ti",
    ]
    assert (size(None), share(1, 0), share(1, 3)) == ("-", "-", "33%")
    assert curve([0, 50, 100]) == "▁▅█" and curve([0, 50], 100) == "▁▅"
    assert curve([]) == "" and curve([0, 0]) == "▁▁"


def test_gpus_of_pods_are_shown_where_any_has_one() -> None:
    used = [{"busy_percent": 80, "memory_bytes": 3 * MIB}, {"busy_percent": None, "memory_bytes": None}]
    head, *rows = lines(PODS, [_pod("a", gpus=used), _pod("b")], 120)
    assert "GPU  GPU MEM" in head and "2x80%" in rows[0] and "3.0Mi    3.0Mi" not in rows[1]
    assert "GPU" not in lines(PODS, [_pod("b")], 120)[0]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = [_pod(f"web-{'x' * length}") for length in (1, 20, 60)]
    for columns, table in ((PODS, rows), ((NAMESPACE, *PODS), rows), (NODES, [NODE])):
        shown = lines(columns, table, width)
        assert len(shown) == 1 + len(table) and all(cell_len(line) <= width for line in shown), shown


def test_names_are_cut_and_numbers_are_not() -> None:
    head, row = lines(NODES, [NODE], 80)
    assert head.split()[:3] == ["NODE", "CPU", "CPU%"]
    assert re.match(r"a-node-\S*…  3500m +88% +25% ", row) and row.endswith(
        curve(NODE["cpu_milli_trend"], 4000)
    )
    assert "3x70%" in lines(NODES, [NODE], 200)[1]
    assert re.search(r"250m +50% +128Mi +50% +▁▂▅$", lines(PODS, [_pod("web")], 80)[1])


@pytest.fixture(scope="module")
def busy() -> Iterator[Live]:
    """A cluster with two pods that were measured."""
    with live(agents=True) as door, door.client() as client:
        for name, cpu in (("idle", "10m"), ("hard-working", "700m")):
            use = {"proreus.io/use-cpu": cpu, "proreus.io/use-memory": "32Mi"}
            made = {
                "metadata": {"name": name, "annotations": use, "labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            assert client.post("/api/v1/namespaces/default/pods", json=made).status_code == 201
        end = time.monotonic() + 60
        while (
            client.get("/v1/use/pods").json()["total"] < 2 or client.get("/v1/use/nodes").json()["total"] < 2
        ):
            assert time.monotonic() < end
            time.sleep(0.1)
        yield door


def test_in_a_pipe_it_is_told_once_the_most_first(busy: Live, proreus: Proreus) -> None:
    ended = proreus("top", "--server", busy.url)
    assert (ended.code, ended.err) == (0, "")
    head, *rows = ended.out.splitlines()
    assert head.startswith("POD") and [row.split()[0] for row in rows] == ["hard-working", "idle"]
    by_name = proreus("top", "pods", "-A", "--sort", "name", "--server", busy.url).out.splitlines()
    assert [row.split()[:2] for row in by_name[1:]] == [["default", "hard-working"], ["default", "idle"]]
    nodes = proreus("top", "nodes", "--server", busy.url).out
    assert nodes.startswith("NODE") and "node-1" in nodes and "node-2" in nodes
    chosen = proreus("top", "-l", "app=idle", "--server", busy.url).out
    assert "idle" in chosen and "hard-working" not in chosen


def test_json_has_everything(busy: Live, proreus: Proreus) -> None:
    document = json.loads(proreus("top", "-o", "json", "--server", busy.url).out)
    assert document["total"] == 2 and document["pods"][0]["name"] == "hard-working"
    assert document["pods"][0]["containers"][0]["cpu_milli"] == 700
    assert json.loads(proreus("top", "nodes", "--json", "-", "--server", busy.url).out)["total"] == 2


def test_nothing_measured_is_said(busy: Live, proreus: Proreus) -> None:
    ended = proreus("top", "-n", "kube-system", "--server", busy.url)
    assert ended.code == 0 and "no pods that were measured in namespace kube-system" in ended.out


def test_what_cannot_be_meant_is_one_line(busy: Live, proreus: Proreus) -> None:
    assert_refused(proreus("top", "services", "--server", busy.url), 2, "nodes or pods")
    assert_refused(proreus("top", "--every", "0", "--server", busy.url), 2, "--every 0 is outside")
    assert_refused(proreus("top", "-l", "(", "--server", busy.url), 1, "selector")


def test_on_a_terminal_it_goes_on_until_interrupted(busy: Live) -> None:
    ours, theirs = pty.openpty()
    words = command("top", "nodes", "--every", "0.2", "--server", busy.url)
    size = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**size))
    os.close(theirs)
    try:
        said, end = b"", time.monotonic() + 60
        while said.count(b"NODE") < 3 and time.monotonic() < end:
            if select.select([ours], [], [], 1.0)[0]:
                said += os.read(ours, 65536)
        assert said.count(b"NODE") >= 3, said
        process.send_signal(2)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
