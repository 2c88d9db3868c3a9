"""`proreus kube import` and `report` over files of `kubectl get -o json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runner import Proreus
from tests.kubeagents.lived_pods import lived_pod, small_cluster


def test_the_command_line_reads_what_kubectl_writes(proreus: Proreus, tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": small_cluster(lived_pod("job", 1, 5))})
    )
    ended = proreus("kube", "import", "--file", str(dump), "--out", str(tmp_path / "week"))
    assert ended.code == 0 and "1 pods on 2 nodes" in ended.out
    told = proreus(
        "kube",
        "report",
        str(tmp_path / "week"),
        "--policies",
        "best_fit",
        "--asked",
        "best_fit",
        "--draws",
        "0",
    )
    assert told.code == 0, told.err
    assert "best_fit would have" in told.out and (tmp_path / "week" / "report" / "saved.md").exists()
    files = [f"--{part}={tmp_path}/week/{part}.json" for part in ("nodes", "pods")]
    played = proreus("simulate", "pods", "--format", "manifests", *files)
    assert played.code == 0, played.err


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"kind":"List"}', '{"kind":"List","items":[1]}', '{"kind":"PodList","items":[{}]}'],
)
def test_what_is_no_list_of_objects_is_one_line(proreus: Proreus, tmp_path: Path, content: str) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(content)
    ended = proreus("kube", "import", "--file", str(dump), "--out", str(tmp_path / "week"))
    assert ended.code == 2 and len(ended.err.splitlines()) == 1 and "dump.json" in ended.err


def test_bad_flags_are_one_line(proreus: Proreus, tmp_path: Path) -> None:
    assert proreus("kube", "import", "--file", "x.json", "--follow", "1h").code == 2
    assert proreus("kube", "report", str(tmp_path)).code == 2
    assert proreus("kube", "report").code == 2
    assert proreus("kube", "nothing").code == 2
    assert proreus("kube").code == 2
