"""Wrong files: exit 2, one line with file, line and field, nothing written. Unwritable targets: exit 1."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.runner import NODES, PODS, Proreus, assert_refused, openb_files

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"
NODE = "kind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}\n---\n"
VERBS = {
    "simulate": ("simulate", "pods", "--json", "result.json", "--log", "log.csv"),
    "compare": (
        "compare",
        "pods",
        "--seeds",
        "2",
        "--processes",
        "1",
        "--out",
        "out",
        "--json",
        "result.json",
    ),
}


@pytest.fixture(params=VERBS.values(), ids=list(VERBS))
def verb(request: pytest.FixtureRequest, proreus: Proreus, tmp_path: Path) -> Callable[..., None]:
    """Runs a verb on bad input and asserts that it is refused and that nothing is written."""

    def refuse(*flags: str, says: tuple[str, ...]) -> None:
        before = sorted(tmp_path.rglob("*"))
        assert_refused(proreus(*request.param, *flags), 2, *says)
        assert sorted(tmp_path.rglob("*")) == before

    return refuse


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("p,-1000,1,0,0,0,9", "pods.csv:2: cpu_milli: '-1000' is negative"),
        ("p,nan,1,0,0,0,9", "pods.csv:2: cpu_milli: 'nan' is not a finite number"),
        ("p,1,inf,0,0,0,9", "pods.csv:2: memory_mib: 'inf' is not a finite number"),
        ("p,1,-inf,0,0,0,9", "pods.csv:2: memory_mib: '-inf' is not a finite number"),
        ("p,1e400,1,0,0,0,9", "pods.csv:2: cpu_milli: '1e400' is too large"),
        ("p,one,1,0,0,0,9", "pods.csv:2: cpu_milli: 'one' is not a number"),
        ("p,,1,0,0,0,9", "pods.csv:2: cpu_milli: the cell is empty"),
        ("p,1.5,1,0,0,0,9", "pods.csv:2: cpu_milli: '1.5' is not a whole number"),
        ("p,1,1,1,1001,0,9", "pods.csv:2: gpu_milli: '1001' is above 1000"),
        ("p,1,1,0,0,9,8", "pods.csv:2: deletion_time: the pod ends at 8, before it starts at 9"),
        ("p,1,1,0,0,nan,8", "pods.csv:2: creation_time: 'nan' is not a finite number"),
        ("p,1,1,0,0,0,9\n" * 2, "pods.csv:3: name: two pods are named 'p'"),
        ("p,1,1", "pods.csv:2: 3 cells where 7 are due"),
    ],
)
def test_a_bad_cell_is_named(row: str, says: str, verb: Callable[..., None], tmp_path: Path) -> None:
    verb(*openb_files(tmp_path, pods=f"{HEADER}{row}\n"), says=(says,))


def test_a_wrong_column_is_named(verb: Callable[..., None], tmp_path: Path) -> None:
    flags = openb_files(tmp_path, pods=PODS.replace("cpu_milli", "cpus"))
    verb(*flags, says=("pods.csv:1: cpu_milli: the column is missing",))
    flags = openb_files(tmp_path, nodes=NODES.replace("model", "model,rack"))
    verb(*flags, says=("nodes.csv:1: 'rack': unknown column",))


FORMATS = {
    "openb": ("--nodes", "{}", "--pods", "{}"),
    "k8ssim": ("--nodes", "{}", "--pods", "{}"),
    "manifests": ("--pods", "{}"),
    "alibaba2025": ("--pods", "{}"),
    "gavel": ("--throughputs", "{}", "--pods", "{}"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_files_that_are_no_files_of_that_format(name: str, proreus: Proreus, tmp_path: Path) -> None:
    """Missing, a directory, empty, 10 MB of bytes and 10 MB of letters."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "blank").write_bytes(b"\n \n")
    noise = random.Random(1).randbytes(10_000_000)
    (tmp_path / "bytes").write_bytes(noise)
    (tmp_path / "letters").write_bytes(noise.translate(bytes(97 + i % 26 for i in range(256))))
    before = sorted(tmp_path.iterdir())
    for file, says in {
        "missing": "no such file",
        "folder": "this is a directory",
        "empty": "the file is empty",
        "blank": "the file is empty",
        "bytes": "not a text file",
        "letters": "letters:1",
    }.items():
        flags = [word.format(file) for word in FORMATS[name]]
        ended = proreus("simulate", "pods", "--format", name, *flags, "--json", "result.json")
        assert_refused(ended, 2, f"{file}:" if file != "letters" else file, says)
        assert len(ended.err) < 300
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NODE + "kind: Pod\nmetadata: {name: p\n", "bad.yaml:7: not valid YAML"),
        ("kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n", "the manifests hold no Node"),
        (
            NODE + "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
            "  - name: c\n    resources: {requests: {cpu: -1}}\n",
            "bad.yaml:10: spec.containers[0].resources.requests.cpu: ",
        ),
        (
            NODE + "kind: Pod\nmetadata: {name: p, annotations: {proreus.io/arrival: nan}}\n"
            "spec: {containers: [{name: c}]}\n",
            "bad.yaml:6: metadata.annotations.proreus.io/arrival: 'nan' is not a finite number",
        ),
        (
            NODE + "kind: Pod\nmetadata: {name: p}\nspec: {priorityClassName: x, containers: [{name: c}]}\n",
            "bad.yaml:7: spec.priorityClassName: there is no PriorityClass 'x'",
        ),
        (NODE + NODE, "bad.yaml:6: metadata.name: two nodes are named 'n'"),
    ],
)
def test_a_bad_manifest_is_named(text: str, says: str, verb: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    verb("--format", "manifests", "--pods", "bad.yaml", says=(says,))


def test_a_file_of_nodes_without_a_node(verb: Callable[..., None], tmp_path: Path) -> None:
    flags = openb_files(tmp_path, nodes=NODES.splitlines(keepends=True)[0])
    verb(*flags, says=("nodes.csv",))


def test_a_file_of_pods_without_a_pod_is_an_empty_workload(proreus: Proreus, tmp_path: Path) -> None:
    flags = openb_files(tmp_path, pods=HEADER)
    assert proreus("simulate", "pods", *flags, "--log", "log.csv").code == 0
    assert (tmp_path / "log.csv").read_text() == "pod,status,node,arrival,start,finish,evictions\n"
    words = ("compare", "pods", *flags, "--seeds", "1", "--processes", "1", "--out", "out")
    assert proreus(*words).code == 0


@pytest.mark.parametrize("flag", ["--json", "--log"])
def test_a_target_that_cannot_be_written(flag: str, proreus: Proreus, tmp_path: Path) -> None:
    flags = openb_files(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").write_text("kept")
    before = sorted(tmp_path.rglob("*"))
    for target in ("nowhere/x", "folder", "pods.csv/x", "y" * 300):
        ended = proreus("simulate", "pods", *flags, flag, target)
        assert_refused(ended, 1, f"{target}: cannot be written")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(proreus: Proreus, tmp_path: Path) -> None:
    flags = openb_files(tmp_path)
    (tmp_path / "locked").mkdir(mode=0o555)
    assert_refused(proreus("simulate", "pods", *flags, "--json", "locked/x"), 1, "Permission denied")


def test_compare_with_targets_that_cannot_be_written(proreus: Proreus, tmp_path: Path) -> None:
    words = ("compare", "pods", *openb_files(tmp_path), "--seeds", "1", "--processes", "1")
    assert_refused(proreus(*words, "--out", "pods.csv"), 1, "pods.csv")
    assert_refused(proreus(*words, "--out", "out", "--json", "nowhere/x"), 1, "nowhere/x: cannot be written")
    assert not list(tmp_path.rglob("*.tmp"))


def test_bad_input_leaves_an_earlier_result_alone(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("earlier")
    flags = openb_files(tmp_path, pods=HEADER + "p,-1,1,0,0,0,9\n")
    assert_refused(proreus("simulate", "pods", *flags, "--json", "result.json"), 2, "pods.csv:2")
    assert (tmp_path / "result.json").read_text() == "earlier"


def test_a_link_as_target_is_written_through(proreus: Proreus, tmp_path: Path) -> None:
    """Otherwise `--json /dev/stdout` replaces the device, where the user may write to /dev."""
    (tmp_path / "real.json").write_text("earlier")
    (tmp_path / "link.json").symlink_to("real.json")
    assert proreus("simulate", "pods", *openb_files(tmp_path), "--json", "link.json").code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text().startswith("{")
