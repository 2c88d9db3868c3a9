"""`proreus up` as a process: how it starts, ends, goes on, and what it refuses."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from pathlib import Path

import httpx

from tests.cli.cluster.clusters import Cluster, started, until
from tests.cli.cluster.conftest import WEB
from tests.cli.runner import Proreus, assert_refused, command, environment, run_process


def names_of_running(cluster: Cluster, proreus: Proreus) -> set[str]:
    found = json.loads(proreus("get", "pods", "-o", "json", *cluster.where).out or '{"items": []}')
    return {pod["metadata"]["name"] for pod in found["items"] if pod["status"].get("phase") == "Running"}


def test_it_goes_on_where_it_was_ended_or_killed(tmp_path: Path, proreus: Proreus) -> None:
    folder = tmp_path / "state"
    with started(folder, "--nodes", "2") as first:
        assert proreus("apply", "-f", str(WEB), *first.where).code == 0
        until(lambda: len(names_of_running(first, proreus)) == 3)
        before = names_of_running(first, proreus)
        code, said = first.end(signal.SIGINT)
        assert code == 0 and "Traceback" not in said
        assert said.splitlines()[-1] == "proreus: ended; the same command goes on where it was"
    with started(folder, "--nodes", "2") as second:
        until(lambda: names_of_running(second, proreus) == before)
        second.end(signal.SIGKILL)
    with started(folder, "--nodes", "2") as third:
        until(lambda: names_of_running(third, proreus) == before)
        assert proreus("delete", "-f", str(WEB), *third.where).code == 0
        until(lambda: not names_of_running(third, proreus))
        assert proreus("apply", "-f", str(WEB), *third.where).code == 0
        until(lambda: len(names_of_running(third, proreus)) == 3)  # and it decides again


def test_what_it_says_and_writes(cluster: Cluster) -> None:
    ready = cluster.ready
    assert ready["pid"] == cluster.process.pid and ready["nodes"] == 3
    assert ready["store"] == f"sqlite:{cluster.folder / 'cluster.db'}"
    kubeconfig = Path(ready["kubeconfig"])
    assert ready["api"] in kubeconfig.read_text()
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600


def test_the_status_page_and_what_it_follows(cluster: Cluster) -> None:
    page = httpx.get(cluster.ready["page"])
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "script-src 'sha256-" in page.headers["content-security-policy"]
    wanted, seen = {"status", "nodes"}, {}
    with httpx.stream("GET", f"{cluster.ready['api']}/v1/events", timeout=20) as stream:
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                seen[name] = json.loads(line.removeprefix("data: "))
            if wanted <= set(seen):
                break
    assert {node["name"] for node in seen["nodes"]["nodes"]} == {"node-1", "node-2", "node-3"}
    assert all(
        len(node["cpu"]) == len(node["memory"]) == len(node["pods"]) == 2 for node in seen["nodes"]["nodes"]
    )
    status = seen["status"]
    assert status["nodes"]["total"] == 3 and {"phases", "queue", "requested", "started"} <= set(status)
    assert [one["policy"] for one in status["schedulers"]] == ["kube"]
    assert [one["shadow"] for one in status["schedulers"]] == ["best_fit"]


def test_a_used_port_and_a_used_folder_are_one_line(cluster: Cluster, tmp_path: Path) -> None:
    port = cluster.ready["api"].rpartition(":")[2]
    ended = run_process("up", "--quiet", "--dir", "other", "--port", port, cwd=tmp_path)
    assert_refused(ended, 1, f"127.0.0.1:{port}", "Address already in use")
    ended = run_process("up", "--quiet", "--dir", str(cluster.folder), "--port", "0", cwd=tmp_path)
    assert_refused(ended, 1, "a cluster runs here already", str(cluster.process.pid), "--dir")


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the home should be")
    ended = run_process("up", "--quiet", cwd=tmp_path, HOME=str(tmp_path / "home"), XDG_STATE_HOME="")
    assert_refused(ended, 1, "the cluster cannot be kept here", "--dir")


def test_a_store_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text(
        "this is not a database, and it is long enough to be taken for one\n" * 20
    )
    ended = run_process(
        "up", "--quiet", "--dir", "s", "--port", "0", "--store", "sqlite:text.db", cwd=tmp_path
    )
    assert_refused(ended, 1, "text.db")


def test_a_second_machine_joins_with_agent(tmp_path: Path, proreus: Proreus) -> None:
    with started(tmp_path / "state", "--nodes", "0") as made:
        words = ("agent", "--store", made.ready["store"], "--name", "rack", "--nodes", "2", "--quiet")
        agent = subprocess.Popen(command(*words), env=environment(), stderr=subprocess.PIPE)
        try:
            until(lambda: proreus("get", "nodes", *made.where).out.count(" Ready ") == 2, 60)
            assert proreus("apply", "-f", str(WEB), *made.where).code == 0
            until(lambda: len(names_of_running(made, proreus)) == 3)
            assert "rack-1" in proreus("get", "pods", "-o", "wide", *made.where).out
            agent.send_signal(signal.SIGTERM)
            _, said = agent.communicate(timeout=30)
            assert (agent.returncode, said) == (0, b"")
        finally:
            agent.kill()
            agent.communicate()


def test_tokens_are_asked_for_and_written_down(tmp_path: Path, proreus: Proreus) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("viewer-token-0123456789,eve,viewer\nadmin-token-0123456789,ann,admin\n")
    tokens.chmod(0o600)
    audit = tmp_path / "audit.jsonl"
    with started(
        tmp_path / "state", "--nodes", "0", "--token-file", str(tokens), "--audit-log", str(audit)
    ) as made:
        assert proreus("get", "nodes", *made.where).code == 0  # the kubeconfig has the admin's
        server = ("--server", made.ready["api"])
        assert_refused(proreus("get", "nodes", *server), 1, "Unauthorized", "--token")
        viewer = (*server, "--token", "viewer-token-0123456789")
        assert proreus("get", "nodes", *viewer).code == 0
        assert_refused(proreus("apply", "-f", str(WEB), *viewer), 1, "forbidden", "viewer")
        assert httpx.get(made.ready["page"]).status_code == 200  # the page holds nothing, and asks for one
        assert httpx.get(f"{made.ready['api']}/v1/events").status_code == 401
    assert '"eve"' in audit.read_text()
