"""What a shadow finds, without a network: events in, comparisons and a report out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proreus.cli.main import main
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler.core import SchedulingOptions
from proreus.engine.scheduler.instructions import ObjectDeleted, ObjectUpdated
from proreus.kubeagents.scheduler.shadow_core import ShadowCore
from proreus.kubeagents.scheduler.shadow_log import ShadowLog, before, read_log
from proreus.kubeagents.scheduler.shadow_report import add_up, told
from proreus.kubeagents.scheduler.shadow_watcher import ShadowWatcher
from proreus.kubeagents.scheduler.status_server import Answer
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.fake import FakeApiServer
from proreus.model.errors import InputError, WorkError

Object = dict[str, Any]


def _node(name: str, cpu: str = "4", **labels: str) -> Object:
    size = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": size},
    }


def _pod(name: str, node: str = "", cpu: str = "1", **more: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec: Object = {"containers": [container], "schedulerName": "default-scheduler", **more}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": spec, "status": {}}


def _core(policy: str = "best_fit", **more: Any) -> ShadowCore:
    core = ShadowCore(SchedulingOptions(Chosen(policy), apart=False, **more))
    core.prepare()
    for n in range(3):
        core.handle(ObjectUpdated("Node", _node(f"n{n}")), 0.0)
    core.listening = True
    return core


def _bind(core: ShadowCore, name: str, node: str, at: float, **more: Any) -> None:
    core.handle(ObjectUpdated("Pod", _pod(name, **more)), at)
    core.handle(ObjectUpdated("Pod", _pod(name, node, **more)), at)


def test_it_compares_with_where_pods_really_went_and_binds_nothing() -> None:
    core = _core()
    for n in range(3):
        _bind(core, f"p{n}", f"n{n}", float(n))  # spread, as kube does it
    found = core.take()
    assert [one.node for one in found] == ["n0", "n1", "n2"]
    assert [one.same for one in found] == [True, False, False], "best_fit packs"
    assert [one.would for one in found[1:]] == ["n0", "n0"]
    assert found[2].in_use == (2, 1), "had it decided all along, one node were in use"
    assert "not n2" in found[2].why
    assert core.cycle(10.0, 9) == [], "nothing is instructed"
    core.handle(ObjectUpdated("Pod", _pod("p0", "n0")), 11.0)
    assert core.take() == [], "a pod is compared once"


def test_pods_that_leave_leave_the_other_history_too() -> None:
    core = _core()
    for n in range(3):
        _bind(core, f"p{n}", f"n{n}", 0.0)
    for n in range(3):
        core.handle(ObjectDeleted("Pod", _pod(f"p{n}", f"n{n}")), 1.0)
    _bind(core, "last", "n1", 2.0)
    assert core.take()[-1].in_use == (0, 0)
    assert core.alternate.left_out == 0


def test_a_pod_that_others_let_wait_and_one_that_they_put_where_it_may_not_go() -> None:
    core = _core()
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 ..."}
    told_to_wait = {**_pod("w"), "status": {"conditions": [waits]}}
    core.handle(ObjectUpdated("Pod", told_to_wait), 0.0)
    core.handle(ObjectUpdated("Pod", told_to_wait), 1.0)
    (found,) = core.take()
    assert (found.node, bool(found.would), found.same) == ("", True, False)
    _bind(core, "wrong", "n0", 2.0, nodeSelector={"disk": "fast"})
    (found,) = core.take()
    assert "didn't match Pod's node affinity/selector" in found.forbidden and found.would == ""
    assert core.alternate.left_out == 1


def test_only_those_that_were_asked_for_and_not_what_kubelets_make() -> None:
    core = ShadowCore(SchedulingOptions(Chosen("kube"), apart=False), names=frozenset({"mine"}))
    core.prepare()
    core.handle(ObjectUpdated("Node", _node("n0")), 0.0)
    core.listening = True
    _bind(core, "theirs", "n0", 0.0)
    mirror = _pod("static", "n0", schedulerName="mine")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    core.handle(ObjectUpdated("Pod", mirror), 0.0)
    assert core.take() == []
    _bind(core, "ours", "n0", 1.0, schedulerName="mine")
    assert [one.pod for one in core.take()] == ["ns/ours"]


def _log(folder: Path) -> None:
    core = _core()
    for n in range(12):
        _bind(core, f"p{n}", f"n{n % 3}", 3600.0 * n, cpu="500m")
    ShadowLog(folder).append(core.take())


def test_the_report_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _log(tmp_path)
    report = add_up(read_log(tmp_path))
    assert (report.pods, report.same + report.other_node) == (12, 12)
    assert report.opened == (2, 0), "two nodes were taken into use that it would have left alone"
    really, instead = report.node_seconds
    assert instead < really and report.to_json()["node_hours"]["really"] == round(really / 3600, 3)
    text = told(report, 2.0)
    assert f"${(really - instead) / 3600 * 2:,.2f} less" in text
    assert main(["kube", "shadow-report", str(tmp_path), "--json", str(tmp_path / "r.json")]) == 0
    assert "12 decisions of others" in capsys.readouterr().out
    assert (tmp_path / "r.json").exists()


def test_a_log_is_bounded_and_a_cut_line_does_no_harm(tmp_path: Path) -> None:
    core = _core()
    log = ShadowLog(tmp_path, 4000)
    for n in range(20):
        _bind(core, f"p{n}", f"n{n % 3}", float(n), cpu="100m")
        log.append(core.take())
    assert before(tmp_path).exists() and (tmp_path / "decisions.jsonl").stat().st_size < 4000
    with (tmp_path / "decisions.jsonl").open("a") as file:
        file.write('{"at": 3')
    assert add_up(read_log(tmp_path)).pods > 0
    with (tmp_path / "decisions.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(InputError, match="not a line of a shadow's log"):
        add_up(read_log(tmp_path))
    with pytest.raises(InputError, match="--mode shadow"):
        list(read_log(tmp_path / "nothing"))
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkError, match="nothing can be written here"):
        ShadowLog(tmp_path / "file" / "below")


def test_a_policy_that_fails_is_replaced_by_the_rules(tmp_path: Path) -> None:
    code = tmp_path / "bad.py"
    code.write_text(
        "class Bad:\n"
        "    name = 'bad'\n"
        "    def decide(self, observation):\n"
        "        raise RuntimeError('broken')\n"
        "    def fresh(self, seed):\n"
        "        return self\n"
    )
    core = _core(f"{code}:Bad")
    _bind(core, "p", "n0", 0.0)
    (found,) = core.take()
    assert found.fallback == "error" and found.would


def test_it_says_when_it_begins_to_listen(tmp_path: Path) -> None:
    server = FakeApiServer()
    for n in range(2):
        server.put("nodes", _node(f"n{n}"))
    server.put("pods", _pod("p", "n0"))
    told: list[str] = []

    async def scene() -> None:
        client = KubeClient(server)
        watcher = ShadowWatcher(client, SchedulingOptions(Chosen("best_fit"), apart=False), tmp_path)
        heard = asyncio.Event()

        def tell(line: str) -> None:
            told.append(line)
            assert watcher.core.listening
            heard.set()

        watcher.tell = tell
        assert watcher.answers()["/readyz"]() == Answer("not ready: still listing\n", good=False)
        running = asyncio.create_task(watcher.run())
        async with asyncio.timeout(60):
            await asyncio.wait((running, asyncio.create_task(heard.wait())), return_when="FIRST_COMPLETED")
        assert watcher.answers()["/readyz"]() == Answer("ok\n")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scene())
    assert told == ["listening: 2 nodes, 1 pods"]
