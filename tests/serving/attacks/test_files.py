"""Input files without an end, workloads without a bound, and what the log says of a refusal."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from proreus.cli.arguments import PlainLines
from proreus.data.cleaning.csv_blocks import LogFile
from proreus.data.text_file import read_text
from proreus.kube import manifests
from proreus.model.errors import InputError
from proreus.worlds.pods.datasets import k8ssim

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": 4}}}


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    return path


def test_a_pipe_or_a_device_is_no_input(pipe: Path, tmp_path: Path) -> None:
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(InputError, match="a pipe or a device"):
            read_text(path)
        with pytest.raises(InputError, match="a pipe or a device"):
            LogFile(path).header()
    with pytest.raises(InputError, match="directory"):
        read_text(tmp_path)


def deployment(name: str, replicas: int) -> dict[str, object]:
    labels = {"app": name}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_replicas_are_bounded_in_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MOST_REPLICAS", 100)
    path = tmp_path / "workload.json"
    items = [NODE, *(deployment(f"d{k}", 60) for k in range(2))]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    with pytest.raises(InputError, match="more than 100 pods in all"):
        manifests.read_manifests([path])


def test_tasks_are_bounded_in_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(k8ssim, "MOST_REPLICAS", 100)
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]
    template = {"spec": {"containers": containers}}
    jobs = [
        {
            "metadata": {"name": f"j{k}"},
            "spec": {"tasks": [{"name": "t", "replicas": 60, "template": template}]},
        }
        for k in range(2)
    ]
    path = tmp_path / "jobs.yaml"
    path.write_text(json.dumps({"jobs": jobs}))
    with pytest.raises(InputError, match="more than 100 tasks in all"):
        k8ssim.read_jobs(path)


def test_an_amount_beyond_all_numbers_is_one_line(tmp_path: Path) -> None:
    node = {**NODE, "status": {"allocatable": {"cpu": "1e999999999"}}}
    path = tmp_path / "node.json"
    path.write_text(json.dumps(node))
    with pytest.raises(InputError, match="too large"):
        manifests.read_manifests([path])


def test_plain_logs_say_which_request_and_why() -> None:
    record = logging.LogRecord("proreus.x", logging.INFO, "", 0, "request", (), None)
    record.fields = {"request_id": "a-1", "path": "/pre dict\nx", "status": 404, "detail": "path: none"}
    line = PlainLines().format(record)
    assert (
        line.endswith('request request_id=a-1 path="/pre dict\\nx" status=404 detail="path: none"')
        and "\n" not in line
    )
