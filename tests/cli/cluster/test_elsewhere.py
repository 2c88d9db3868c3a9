"""A pod on the machine of another process: its logs, commands in it, and its images, through the one API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cluster.clusters import STARTS_SECONDS, Cluster, compiles, started, until
from tests.cli.runner import Proreus, assert_refused, command, environment
from tests.engine.runtimes.archives import busybox_archive
from tests.engine.runtimes.conftest import found_busybox

_POD = """
apiVersion: v1
kind: Pod
metadata: {name: there}
spec:
  nodeName: other
  containers:
  - {name: main, image: "localhost/busybox:1", command: [sh, -c, 'echo from the other; sleep 300']}
"""


@contextmanager
def _joined(cluster: Cluster, folder: Path, *words: str) -> Iterator[dict[str, Any]]:
    """Another process on the store of a cluster, whose node is `other`; its pods are stopped at the end."""
    path = folder / "agent.json"
    place = ("--store", cluster.ready["store"], "--dir", str(folder / "agent"), "--name", "other")
    agent = subprocess.Popen(
        command("agent", *place, "--quiet", "--json", str(path), *words),
        env=environment(),
        stderr=subprocess.PIPE,
    )
    try:
        until(lambda: path.exists() or agent.poll() is not None, STARTS_SECONDS)
        assert agent.poll() is None, agent.communicate()[1].decode()
        yield json.loads(path.read_text())
        assert not compiles(agent.pid)  # it decides nothing, whatever it was asked
        agent.send_signal(signal.SIGTERM)
        _, said = agent.communicate(timeout=60)
        assert agent.returncode == 0 and b"Traceback" not in said, said.decode()
    finally:
        if agent.poll() is None:
            agent.kill()
            agent.communicate()
        down = command("down", "--dir", str(folder / "agent"), "--quiet")
        subprocess.run(down, env=environment(), check=True, timeout=60)


def _runs(proreus: Proreus, cluster: Cluster, folder: Path) -> None:
    (folder / "there.yaml").write_text(_POD)
    assert proreus("apply", "-f", "there.yaml", *cluster.where).code == 0
    until(lambda: "Running" in proreus("get", "pod", "there", *cluster.where).out)


def test_logs_and_commands_of_a_pod_of_another_process(tmp_path: Path, proreus: Proreus) -> None:
    with started(tmp_path / "state", "--runtime", "process") as cluster:
        with _joined(cluster, tmp_path, "--runtime", "process"):
            _runs(proreus, cluster, tmp_path)
            assert proreus("logs", "there", *cluster.where).out == "from the other\n"
            ended = proreus("exec", "there", *cluster.where, "--", "sh", "-c", "echo inside; exit 3")
            assert (ended.code, ended.out) == (3, "inside\n")
            assert_refused(proreus("logs", "there", "-c", "none", *cluster.where), 1, "container none")
        assert_refused(proreus("logs", "there", *cluster.where), 1, "node other does not answer")
        assert cluster.end()[0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="runc needs root")
def test_images_of_another_process(tmp_path: Path, proreus: Proreus) -> None:
    archive = str(busybox_archive(found_busybox("runc"), tmp_path / "busybox.tar"))
    with started(tmp_path / "state", "--runtime", "process") as cluster:
        with _joined(cluster, tmp_path, "--runtime", "runc"):
            refused = proreus("images", "import", archive, "--node", "nobody", *cluster.where)
            assert_refused(refused, 1, "nobody")
            brought = proreus("images", "import", archive, "--node", "other", *cluster.where)
            assert brought.out == "localhost/busybox:1 imported on other\n", brought.err
            _runs(proreus, cluster, tmp_path)
            assert proreus("logs", "there", *cluster.where).out == "from the other\n"
            assert proreus("delete", "pod", "there", "--grace-period", "0", *cluster.where).code == 0
            gone = ("images", "remove", "localhost/busybox:1", "--node", "other")
            until(lambda: proreus(*gone, *cluster.where).out == "localhost/busybox:1 removed from other\n")
        assert cluster.end()[0] == 0
