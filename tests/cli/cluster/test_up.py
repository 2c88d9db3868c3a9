"""`proreus up` as a process: how it starts, ends, goes on, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import stat
import subprocess
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from proreus.cli.cluster.state_dir import read_kubeconfig
from proreus.engine.store.factory import open_store
from tests.cli.cluster.clusters import Cluster, compiles, started, until
from tests.cli.cluster.conftest import WEB
from tests.cli.runner import Ended, Proreus, assert_refused, command, environment


def names_of_running(cluster: Cluster, proreus: Proreus) -> set[str]:
    document = json.loads(proreus("get", "pods", "-o", "json", *cluster.where).out or '{"items": []}')
    return {pod["metadata"]["name"] for pod in document["items"] if pod["status"].get("phase") == "Running"}


def test_it_goes_on_where_it_was_killed_or_ended_also_with_tokens(tmp_path: Path, proreus: Proreus) -> None:
    folder = tmp_path / "state"
    with started(folder, "--nodes", "2") as first:
        assert proreus("apply", "-f", str(WEB), *first.where).code == 0
        until(lambda: len(names_of_running(first, proreus)) == 3)
        before = names_of_running(first, proreus)
        first.end(signal.SIGKILL)
    with started(folder, "--nodes", "2") as second:
        until(lambda: names_of_running(second, proreus) == before)
        code, said = second.end(signal.SIGINT)
        assert code == 0 and "Traceback" not in said
        assert said.splitlines()[-1] == "proreus: ended; the same command goes on where it was"
    tokens, audit = tmp_path / "tokens", tmp_path / "audit.jsonl"
    tokens.write_text("viewer-token-0123456789,eve,viewer\nadmin-token-0123456789,ann,admin\n")
    tokens.chmod(0o600)
    with started(folder, "--nodes", "2", "--token-file", str(tokens), "--audit-log", str(audit)) as third:
        until(lambda: names_of_running(third, proreus) == before)  # the kubeconfig has the admin's token
        tokens_are_asked_for(third, proreus)
        assert proreus("delete", "-f", str(WEB), *third.where).code == 0
        until(lambda: not names_of_running(third, proreus))
        assert proreus("apply", "-f", str(WEB), *third.where).code == 0
        until(lambda: len(names_of_running(third, proreus)) == 3)  # and it decides again
    assert '"eve"' in audit.read_text()


def tokens_are_asked_for(made: Cluster, proreus: Proreus) -> None:
    server = ("--server", made.ready["api"])
    assert_refused(proreus("get", "nodes", *server), 1, "Unauthorized", "--token")
    viewer = (*server, "--token", "viewer-token-0123456789")
    assert proreus("get", "nodes", *viewer).code == 0
    assert_refused(proreus("apply", "-f", str(WEB), *viewer), 1, "forbidden", "viewer")
    assert httpx.get(made.ready["page"]).status_code == 200  # the page holds nothing, and asks for one
    assert httpx.get(f"{made.ready['api']}/v1/events").status_code == 401


def test_what_it_says_and_writes(cluster: Cluster) -> None:
    ready = cluster.ready
    assert ready["pid"] == cluster.process.pid and ready["nodes"] == 3
    assert ready["store"] == f"sqlite:{cluster.folder / 'cluster.db'}"
    kubeconfig = Path(ready["kubeconfig"])
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    assert read_kubeconfig(kubeconfig).server == ready["api"].replace("http:", "https:")
    secrets = [cluster.folder / name for name in ("tokens", "tls/ca.key", "tls/server.pem")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in secrets] == [0o600] * 3


def test_nobody_is_answered_without_a_token_though_nodes_are_simulated(
    cluster: Cluster, tmp_path: Path
) -> None:
    mark = tmp_path / "it-ran"
    (tmp_path / "evil.py").write_text(
        f"import pathlib\npathlib.Path({str(mark)!r}).touch()\nclass Evil: ...\n"
    )
    known = read_kubeconfig(Path(cluster.ready["kubeconfig"]))
    trusting = ssl.create_default_context(cadata=known.authority_data)
    choice = {"policy": f"{tmp_path}/evil.py:Evil"}
    for server in (cluster.ready["api"], known.server):
        with httpx.Client(base_url=server, verify=trusting) as client:
            for path in ("/v1/schedulers", "/v1/events", "/api/v1/nodes", "/version", "/openapi/v2"):
                assert client.get(path).status_code == 401, (server, path)
            assert client.put("/v1/schedulers/x", json=choice).status_code == 401
            answer = client.put("/v1/schedulers/x", json=choice, headers=cluster.headers)
            assert answer.status_code == 403 and answer.json()["message"].startswith("policy: ")
            assert "--policy-folder" in answer.json()["message"]
            assert client.get("/livez").text == "ok"
    assert not mark.exists()


def test_the_page_is_shown_a_token_that_only_reads(cluster: Cluster) -> None:
    (token,) = [
        line.split(",")[0]
        for line in (cluster.folder / "tokens").read_text().splitlines()
        if line.endswith(",page,viewer")
    ]
    headers = {"authorization": f"Bearer {token}"}
    api = cluster.ready["api"]
    with httpx.stream("GET", f"{api}/v1/events", headers=headers) as answer:
        assert answer.status_code == 200
    assert httpx.get(f"{api}/api/v1/secrets", headers=headers).status_code == 403
    assert httpx.put(f"{api}/v1/schedulers/x", json={"policy": "kube"}, headers=headers).status_code == 403


def test_the_dashboard_and_what_it_follows(cluster: Cluster) -> None:
    page = httpx.get(cluster.ready["page"])
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    assert httpx.get(f"{cluster.ready['api']}/static/app.js").status_code == 200
    assert httpx.get(f"{cluster.ready['api']}/dashboard/about").status_code == 401
    told = httpx.get(f"{cluster.ready['api']}/dashboard/about", headers=cluster.headers).json()
    assert told["cluster"] and told["writes"]
    wanted, seen = {"status", "nodes"}, {}
    events = f"{cluster.ready['api']}/v1/events"
    with httpx.stream("GET", events, timeout=20, headers=cluster.headers) as stream:
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
    assert [scheduler["policy"] for scheduler in status["schedulers"]] == ["kube"]
    assert [scheduler["shadow"] for scheduler in status["schedulers"]] == ["best_fit"]


def test_a_used_port_and_a_used_folder_are_one_line(cluster: Cluster, proreus: Proreus) -> None:
    port = cluster.ready["api"].rpartition(":")[2]
    ended = proreus("up", "--quiet", "--dir", "other", "--port", port)
    assert_refused(ended, 1, f"127.0.0.1:{port}", "Address already in use", "--port 0")
    ended = proreus("up", "--quiet", "--dir", str(cluster.folder), "--port", "0")
    assert_refused(ended, 1, "a cluster runs here already", str(cluster.process.pid), "--dir")


def test_what_runs_already_is_not_run_a_second_time(
    cluster: Cluster, proreus: Proreus, tmp_path: Path
) -> None:
    store = cluster.ready["store"]
    (tmp_path / "link.db").symlink_to(store.removeprefix("sqlite:"))
    for address in (store, f"sqlite:{tmp_path / 'link.db'}"):
        ended = proreus("up", "--quiet", "--dir", "other", "--port", "0", "--nodes", "1", "--store", address)
        assert_refused(ended, 1, "in another folder runs on this store", str(cluster.process.pid))
    agent = ("agent", "--quiet", "--dir", "agent", "--nodes", "1")
    ended = proreus(*agent, "--name", "node", "--store", store)
    assert_refused(ended, 1, "another process", "runs the node node-1", "wait")


async def an_empty_store(path: Path) -> None:
    await (await open_store(f"sqlite:{path}")).close()


def test_an_agent_of_no_cluster_is_told_and_makes_none(proreus: Proreus, tmp_path: Path) -> None:
    agent = ("agent", "--quiet", "--dir", "agent", "--nodes", "1", "--name", "a")
    assert_refused(proreus(*agent, "--store", "sqlite:typo.db"), 2, "sqlite:typo.db: no cluster is in it")
    assert not (tmp_path / "typo.db").exists()
    asyncio.run(an_empty_store(tmp_path / "empty.db"))
    assert_refused(proreus(*agent, "--store", "sqlite:empty.db"), 2, "no cluster is in it")


def test_up_and_down_tell_the_same_of_containers(tmp_path: Path, proreus: Proreus) -> None:
    folder = tmp_path / "state"
    (tmp_path / "pod.yaml").write_text(
        a_pod("sleeper", "restartPolicy: Never").replace("image: i", "image: i, command: [sleep, '1000']")
    )
    with started(folder, "--runtime", "process") as made:
        assert proreus("apply", "-f", "pod.yaml", *made.where).code == 0
        until(lambda: len(names_of_running(made, proreus)) == 1)
        _, said = made.end()
        assert "; 1 container goes on running (`" in said
    with started(folder, "--runtime", "process") as made:
        ended = proreus("down", *made.where)
        assert ended.out == "the cluster was ended; 1 container was stopped\n"
        _, told = made.process.communicate(timeout=60)
        assert told.decode().endswith("proreus: ended; the same command goes on where it was\n")
    assert not (folder / "down").exists()


def test_a_home_that_cannot_be_written(
    tmp_path: Path, proreus: Proreus, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("a file where the home should be")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert_refused(proreus("up", "--quiet"), 1, "the cluster cannot be kept here", "--dir")


def test_a_store_that_is_no_store(tmp_path: Path, proreus: Proreus) -> None:
    (tmp_path / "text.db").write_text(
        "this is not a database, and it is long enough to be taken for one\n" * 20
    )
    assert_refused(
        proreus("agent", "--quiet", "--name", "a", "--dir", "a", "--store", "sqlite:text.db"), 1, "text.db"
    )


def test_models_that_are_nowhere(proreus: Proreus) -> None:
    assert_refused(proreus("up", "--quiet", "--models", "none"), 2, "--models none: there is no such folder")


def a_pod(name: str, spec: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n"
        f"spec: {{{spec}, containers: [{{name: c, image: i}}]}}\n"
    )


def runs(ask: Callable[..., Ended], name: str) -> bool:
    return "Running" in ask("get", "pod", name).out


def test_what_ships_decides_by_its_name_and_what_must_be_trained_says_so(
    cluster: Cluster, namespace: str, ask: Callable[..., Ended], tmp_path: Path
) -> None:
    for name in ("learned", "ddqn", "es"):
        (tmp_path / f"{name}.yaml").write_text(a_pod(name, f"schedulerName: {name}"))
        assert ask("apply", "-f", f"{name}.yaml").code == 0
    for name in ("learned", "ddqn") if find_spec("torch") else ("learned",):
        until(partial(runs, ask, name), 60)
        assert name in ask("describe", "pod", name).out.partition("Decision")[2].partition("Events")[0]
    until(lambda: "FailedScheduling" in ask("get", "events").out)
    events = json.loads(ask("get", "events", "-o", "json").out)["items"]
    messages = [event["message"] for event in events if event["reason"] == "FailedScheduling"]
    assert messages == [
        "schedulerName es needs a trained model: proreus train pods --algo es --scenarios gpu "
        f"--out {cluster.folder}/models/es"
    ]


def test_a_second_machine_joins_with_agent(
    cluster: Cluster, ask: Callable[..., Ended], tmp_path: Path
) -> None:
    words = ("--store", cluster.ready["store"], "--dir", str(tmp_path / "rack"), "--name", "rack")
    agent = subprocess.Popen(
        command("agent", *words, "--nodes", "2", "--quiet"), env=environment(), stderr=subprocess.PIPE
    )
    try:
        until(lambda: ask("get", "nodes", "rack-1", "rack-2").out.count(" Ready ") == 2, 60)
        chosen = "nodeSelector: {kubernetes.io/hostname: rack-2}"
        (tmp_path / "there.yaml").write_text(a_pod("there", chosen))
        assert ask("apply", "-f", "there.yaml").code == 0
        until(lambda: "Running" in ask("get", "pod", "there").out)
        assert "rack-2" in ask("get", "pod", "there", "-o", "wide").out
        assert compiles(cluster.process.pid) and not compiles(agent.pid)  # it decides nothing
        assert ask("delete", "pod", "there").code == 0  # by whoever runs it
        agent.send_signal(signal.SIGTERM)
        _, said = agent.communicate(timeout=30)
        assert (agent.returncode, said) == (0, b"")
    finally:
        agent.kill()
        agent.communicate()
        ask("delete", "node", "rack-1", "rack-2", "--ignore-not-found")
