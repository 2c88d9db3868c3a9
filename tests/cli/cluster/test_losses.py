"""A store that lacks what was acknowledged: `up` says so, ends nothing, and goes on where it is told to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.cluster.clusters import started, until
from tests.cli.runner import Proreus, assert_refused, run_process

POD = """
apiVersion: v1
kind: Pod
metadata: {name: sleeper}
spec:
  containers: [{name: main, image: none, command: [sh, -c, "echo $$$$ > PID; exec sleep 3600"]}]
"""


def _empty(store: Path) -> None:
    store.write_bytes(b"")


def _empty_without_mark(store: Path) -> None:
    store.write_bytes(b"")
    store.with_name("cluster.db.mark").unlink()


def _gone(store: Path) -> None:
    for file in store.parent.glob("cluster.db*"):
        file.unlink()


def _damaged_log(store: Path) -> None:
    with store.with_name("cluster.db-wal").open("r+b") as log:
        log.seek(32 + 24 + 100)
        log.write(b"\xa5" * 16)


@contextmanager
def _killed_with_a_pod(folder: Path, proreus: Proreus) -> Iterator[int]:
    """The process of a pod whose cluster was killed."""
    number = folder.parent / "pid"
    (folder.parent / "pod.yaml").write_text(POD.replace("PID", str(number)))
    with started(folder, "--runtime", "process") as cluster:
        assert proreus("apply", "-f", str(folder.parent / "pod.yaml"), *cluster.where).code == 0
        until(lambda: number.exists() and bool(number.read_text().strip()))
        cluster.end(signal.SIGKILL)
    try:
        yield int(number.read_text())
    finally:
        assert proreus("down", "--dir", str(folder)).code == 0


@pytest.mark.parametrize("damage", [_empty, _empty_without_mark, _gone, _damaged_log])
def test_a_store_that_lost_its_cluster_is_refused_and_pods_run_on(
    tmp_path: Path, proreus: Proreus, damage: Callable[[Path], None]
) -> None:
    """Each was a new cluster without a word, or an older one, and ended what ran."""
    folder = tmp_path / "state"
    with _killed_with_a_pod(folder, proreus) as pod:
        damage(folder / "cluster.db")
        words = ("up", "--quiet", "--dir", str(folder), "--port", "0", "--runtime", "process")
        for _ in range(2):
            assert_refused(run_process(*words, cwd=tmp_path), 2, "cluster.db", "--accept-loss", "copy")
            os.kill(pod, 0)
        with started(folder, "--runtime", "process", "--accept-loss") as cluster:
            assert proreus("get", "nodes", *cluster.where).code == 0
        with started(folder, "--runtime", "process") as cluster:
            assert proreus("get", "nodes", *cluster.where).code == 0
