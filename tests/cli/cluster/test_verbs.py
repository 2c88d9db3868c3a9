"""The verbs against a cluster that runs, as a user types them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from proreus.cli import drain
from tests.cli.cluster.clusters import Cluster, until
from tests.cli.cluster.conftest import WEB
from tests.cli.runner import Ended, Proreus, assert_refused, command, environment

Ask = Callable[..., Ended]
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\n"
    "spec: {containers: [{name: c, image: i, resources: RES}]}\n"
)


def running(ask: Ask) -> list[str]:
    listing = ask("get", "pods", "-l", "app=web", "-o", "json").out
    pods = json.loads(listing)["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]


def a_pod(folder: Path, name: str, resources: str = "{}") -> str:
    path = folder / f"{name}.yaml"
    path.write_text(POD.replace("NAME", name).replace("RES", resources))
    return str(path)


def test_from_a_file_to_three_replicas_and_back(ask: Ask) -> None:
    ended = ask("apply", "-f", str(WEB))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "deployment.apps/web created\npoddisruptionbudget.policy/web created\n"
    until(lambda: len(running(ask)) == 3)
    until(lambda: "3/3" in ask("get", "deployment", "web").out)
    assert ask("apply", "-f", str(WEB)).out.count("unchanged") == 2
    logs = ask("logs", "deployment/web")
    assert logs.code == 0 and logs.out.startswith("starting proreus.local/python:3")
    tried = ask("exec", f"pod/{running(ask)[0]}", "--", "echo", "hello")
    assert tried.code == 126 and "simulated" in tried.err
    ended = ask("delete", "-f", str(WEB))
    assert "deployment.apps/web deleted" in ended.out
    until(lambda: "nothing found" in ask("get", "all").out)


def test_a_change_of_a_file_is_a_change_of_the_object(ask: Ask, tmp_path: Path) -> None:
    changed = tmp_path / "web.yaml"
    changed.write_text(WEB.read_text().replace("replicas: 3", "replicas: 1"))
    ask("apply", "-f", str(WEB))
    assert "deployment.apps/web configured" in ask("apply", "-f", str(changed)).out
    until(lambda: len(running(ask)) == 1)
    assert "(dry run)" in ask("apply", "-f", str(WEB), "--dry-run").out
    assert json.loads(ask("get", "deploy", "web", "-o", "json").out)["spec"]["replicas"] == 1


def test_every_form_of_get(ask: Ask, tmp_path: Path, namespace: str) -> None:
    assert ask("get", "pods").out == f"nothing found in namespace {namespace}\n"
    ask("apply", "-f", a_pod(tmp_path, "a"), "-f", a_pod(tmp_path, "b"))
    head, *rows = ask("get", "po").out.splitlines()
    assert re.split(r"\s{2,}", head) == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row.split()[0] for row in rows] == ["a", "b"]
    assert "NODE" in ask("get", "po", "-o", "wide").out.splitlines()[0]
    assert ask("get", "pods", "-o", "name").out == "pod/a\npod/b\n"
    assert yaml.safe_load(ask("get", "pod", "a", "-o", "yaml").out)["metadata"]["name"] == "a"
    listed = json.loads(ask("get", "pods", "-o", "json").out)
    assert [item["kind"] for item in listed["items"]] == ["Pod", "Pod"]
    everywhere = ask("get", "pods", "-A").out
    assert everywhere.startswith("NAMESPACE") and namespace in everywhere
    assert "nothing found" in ask("get", "pods", "-l", "app=none").out
    assert ask("get", "pods", "--field-selector", "metadata.name=b", "-o", "name").out == "pod/b\n"
    both = ask("get", "pod/a", "node/node-1").out
    assert "pod/a" in both and "node/node-1" in both
    ask("get", "pods", "--json", "found.json", "--quiet")
    assert len(json.loads((tmp_path / "found.json").read_text())["items"]) == 2


def test_what_is_not_there_is_one_line_and_code_1(ask: Ask, tmp_path: Path) -> None:
    assert_refused(ask("get", "pod", "nobody"), 1, '"nobody" not found')
    assert_refused(ask("describe", "pod", "nobody"), 1, '"nobody" not found')
    assert_refused(ask("delete", "pod", "nobody"), 1, '"nobody" not found')
    assert ask("delete", "pod", "nobody", "--ignore-not-found").out == "nothing deleted\n"
    assert_refused(ask("logs", "nobody"), 1, '"nobody" not found')
    assert_refused(ask("cordon", "nobody"), 1, '"nobody" not found')
    ask("apply", "-f", a_pod(tmp_path, "a"))
    ended = ask("get", "pod", "a", "nobody")
    assert ended.code == 1 and "a " in ended.out and "nobody" in ended.err


def test_a_manifest_that_is_wrong_names_file_line_and_field(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("---\n" + POD.replace("NAME", "Not_A_Name").replace("RES", "{}"))
    assert_refused(ask("apply", "-f", "bad.yaml"), 2, "bad.yaml:2: ", "metadata.name")
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: Unicorn\nmetadata: {name: a}\n")
    assert_refused(ask("apply", "-f", "other.yaml"), 2, "other.yaml:1: kind: ", "v1 Unicorn", "v1 Pod")
    assert_refused(
        ask("apply", "-f", a_pod(tmp_path, "x", "{requests: {cpu: lots}}")), 2, "x.yaml:1: ", "quantit"
    )


def test_fields_that_no_kind_has_are_told_of_a_line_each(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd, lables: {a: b}}\ndta: {a: b}\n"
    )
    ended = ask("apply", "-f", str(tmp_path / "odd.yaml"))
    assert (ended.code, ended.out) == (0, "configmap/odd created\n")
    lines = ended.err.splitlines()
    assert [line.partition("warning: ")[2] for line in lines] == [
        'unknown field "metadata.lables"',
        'unknown field "dta"',
    ]
    assert all(line.startswith("proreus: ") and "odd.yaml" in line for line in lines)


def test_describe_tells_why_a_pod_went_where_it_went(ask: Ask, tmp_path: Path) -> None:
    ask("apply", "-f", a_pod(tmp_path, "a", "{requests: {cpu: 100m}}"))
    until(lambda: "Started" in ask("describe", "pod", "a").out)
    output = ask("describe", "pod", "a").out
    assert re.search(r"Policy: +kube\nDecided: +place on node-\d\nBecause: +node-\d scored \d+", output)
    assert "3 of 3 nodes could take it" in output
    assert re.search(r"Shadow: +best_fit would have", output)
    assert re.search(r"Normal +Scheduled +Successfully assigned", output)


def test_describe_tells_why_a_pod_waits(ask: Ask, tmp_path: Path) -> None:
    ask("apply", "-f", a_pod(tmp_path, "large", "{requests: {cpu: 64}}"))
    until(lambda: "FailedScheduling" in ask("describe", "pod", "large").out)
    assert "0/3 nodes are available: 3 Insufficient cpu" in ask("describe", "pod", "large").out


def test_describe_of_other_kinds(ask: Ask, tmp_path: Path) -> None:
    node = ask("describe", "node", "node-1").out
    assert "Schedulable:" in node and re.search(r"cpu +8 ", node)
    ask("apply", "-f", str(WEB))
    until(lambda: len(running(ask)) == 3)
    output = ask("describe", "deploy/web").out
    assert "3 wanted, 3 there" in output and re.search(r"ReplicaSets\nNAME", output)
    (tmp_path / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {key: value}\n"
    )
    ask("apply", "-f", "map.yaml")
    assert "key: value" in ask("describe", "cm", "m").out


def test_drain_keeps_the_budget_and_uncordon_ends_it(ask: Ask) -> None:
    ask("apply", "-f", str(WEB))
    until(lambda: len(running(ask)) == 3)
    until(lambda: '"disruptionsAllowed": 1' in ask("get", "pdb", "web", "-o", "json").out)
    ended = ask("drain", "node-2", "--timeout", "60", "--force")
    try:
        assert ended.code == 0, ended.err
        assert ended.out.startswith("node/node-2 cordoned\n") and ended.out.endswith("node/node-2 drained\n")
        assert "SchedulingDisabled" in ask("get", "node", "node-2").out
        assert "already cordoned" in ask("cordon", "node-2").out
        until(lambda: len(running(ask)) == 3)
        assert "node-2" not in ask("get", "pods", "-l", "app=web", "-o", "wide").out
    finally:
        assert "uncordoned" in ask("uncordon", "node-2").out


def test_drain_does_not_lose_what_nothing_brings_back(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "alone.yaml"
    path.write_text(
        POD.replace("NAME", "alone").replace("RES", "{}").replace("spec: {", "spec: {nodeName: node-3, ")
    )
    ask("apply", "-f", str(path))
    until(lambda: "Running" in ask("get", "pod", "alone").out)
    try:
        assert_refused(ask("drain", "node-3"), 1, "/alone", "--force")
    finally:
        ask("uncordon", "node-3")


def test_a_budget_that_allows_nothing_holds_until_the_time_is_up(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "web.yaml").write_text(WEB.read_text().replace("minAvailable: 2", "minAvailable: 3"))
    ask("apply", "-f", "web.yaml")
    until(lambda: len(running(ask)) == 3)
    until(lambda: '"currentHealthy": 3' in ask("get", "pdb", "web", "-o", "json").out)
    try:
        monkeypatch.setattr(drain, "_SAY_SECONDS", 0.0)
        ended = ask("drain", "node-1", "--timeout", "1", "--force")
        assert_refused(ended, 1, "not drained within 1 s", "budget", "node-1 is still cordoned: ")
        assert "\nwaiting: " in ended.out and "disruption budget" in ended.out
        assert len(running(ask)) == 3

        def interrupted(seconds: float) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(time, "sleep", interrupted)
            ended = ask("drain", "node-1", "--force")
        assert_refused(ended, 130, "interrupted; node-1 is still cordoned: ", "uncordon node-1 --dir ")
    finally:
        ask("uncordon", "node-1")


def test_delete_by_label_and_all(ask: Ask, tmp_path: Path) -> None:
    ask("apply", "-f", a_pod(tmp_path, "a"), "-f", a_pod(tmp_path, "b"))
    assert_refused(ask("delete", "pods"), 2, "which pods?", "--all")
    assert ask("delete", "pods", "-l", "app=none").out == "nothing deleted\n"
    assert ask("delete", "pods", "--all", "--grace-period", "0").out == "pod/a deleted\npod/b deleted\n"
    assert "nothing found" in ask("get", "pods").out


def test_watch_goes_on_with_what_changes(cluster: Cluster, ask: Ask, namespace: str, tmp_path: Path) -> None:
    words = ("get", "pods", "-w", "-n", namespace, *cluster.where)
    watching = subprocess.Popen(
        command(*words), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[0] == "NAME"
        ask("apply", "-f", a_pod(tmp_path, "a"))
        seen = ""
        while "Running" not in seen:
            seen += watching.stdout.readline()
        assert seen.startswith("a ")
    finally:
        watching.send_signal(2)
        _, said = watching.communicate(timeout=30)
    assert watching.returncode == 130 and said == "proreus: interrupted\n"


def test_logs_can_be_cut(ask: Ask, tmp_path: Path) -> None:
    ask("apply", "-f", a_pod(tmp_path, "a"))
    until(lambda: "Running" in ask("get", "pod", "a").out)
    assert ask("logs", "a", "--tail", "1").out.count("\n") == 1
    assert re.match(r"\d{4}-\d\d-\d\dT", ask("logs", "a", "--timestamps").out)
    assert_refused(ask("logs", "a", "-c", "other"), 1, "other")


def test_an_api_that_is_not_there(proreus: Proreus) -> None:
    assert_refused(
        proreus("get", "pods", "--server", "http://127.0.0.1:9"), 1, "no cluster answers", "proreus up"
    )


@pytest.mark.parametrize("width", ["80", "50"])
def test_a_narrow_terminal_cuts_no_name(ask: Ask, width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich: this is a terminal
    monkeypatch.setenv("TERM", "xterm")
    shown = ask("get", "nodes", "-o", "wide").out
    assert max(map(len, shown.splitlines())) <= int(width)
    assert "node-1" in shown and "…" not in shown
