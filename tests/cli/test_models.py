"""`proreus models`: versions are listed, shown, promoted, rolled back, collected; training makes new ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proreus.policies.checkpoint import WEIGHTS
from proreus.serving.models.version_store import ModelStore
from proreus.worlds.pods.policies.vector.model import checkpoint_of, fresh_scorer, load_vector_model
from tests.cli.runner import Proreus, assert_refused
from tests.serving.serving_cases import a_store


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """Three versions of "vector", of which the second is live and the third rejected."""
    model_store = a_store(tmp_path / "models")
    model_store.add("vector", checkpoint_of(fresh_scorer(2), "ppo"), "not worse", parent=1)
    model_store.promote("vector", 2)
    model_store.add("vector", checkpoint_of(fresh_scorer(3), "ppo"), "worse: -1", parent=2, rejected=True)
    return model_store


def answer(proreus: Proreus, store: ModelStore, *words: str) -> dict[str, Any]:
    """The JSON of a command that ends well."""
    path = store.folder.parent / "out.json"
    ended = proreus("models", *words, "--store", str(store.folder), "--json", str(path))
    assert (ended.code, ended.err) == (0, ""), ended
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def test_list_and_show_say_what_there_is(proreus: Proreus, store: ModelStore) -> None:
    rows = answer(proreus, store, "list")["models"]["vector"]
    assert [(row["version"], row["state"]) for row in rows] == [(1, "kept"), (2, "live"), (3, "rejected")]
    text = proreus("models", "list", "--store", str(store.folder)).out
    assert "rejected" in text and "worse: -1" in text
    assert answer(proreus, store, "show")["version"] == 2
    third = answer(proreus, store, "show", "--version", "3", "--name", "vector")
    assert (third["state"], third["parent"], third["note"]) == ("rejected", 2, "worse: -1")


def test_promote_rollback_and_gc_change_it(proreus: Proreus, store: ModelStore) -> None:
    assert answer(proreus, store, "promote", "--version", "3") == {"name": "vector", "live": 3}
    assert answer(proreus, store, "rollback") == {"name": "vector", "live": 2}
    assert store.current("vector") == 2
    assert answer(proreus, store, "gc", "--keep", "1")["removed"] == []
    assert answer(proreus, store, "rollback")["live"] == 1
    assert answer(proreus, store, "gc", "--keep", "1")["removed"] == [2]


def test_bad_commands_end_with_one_line(proreus: Proreus, store: ModelStore, tmp_path: Path) -> None:
    at = ("--store", str(store.folder))
    assert_refused(proreus("models", "promote", *at), 2, "--version")
    assert_refused(proreus("models", "promote", *at, "--version", "9"), 2, "no version 9")
    assert_refused(proreus("models", "show", *at, "--name", "vectro"), 2, "did you mean 'vector'")
    assert_refused(proreus("models", "gc", *at, "--keep", "0"), 2, "at least 1")
    assert_refused(proreus("models", "forget", *at), 2, "unknown action 'forget'")
    assert_refused(proreus("models", "list", "--store", str(tmp_path / "no")), 2, "no such folder")
    assert_refused(proreus("models", "list"), 2, "--store")
    store.add("other", checkpoint_of(fresh_scorer(2), "ppo"), "")
    assert_refused(proreus("models", "rollback", *at), 2, "--name", "other, vector")
    weights = store.folder / "vector" / "2" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert_refused(proreus("models", "show", *at, "--name", "vector"), 2, "checksum")
    assert_refused(proreus("models", "train", "--updates", "0"), 2, "updates must be at least 1")
    assert_refused(proreus("models", "train", "--nodes", str(tmp_path / "no.yaml")), 2, "no.yaml")


NODES = """
cluster:
- metadata: {name: a}
  calculationSpeed: 1.5
  status: {allocatable: {cpu: 8, memory: 16Gi, nvidia.com/gpu: 4, pods: 110}}
- metadata: {name: b}
  calculationSpeed: 1.0
  status: {allocatable: {cpu: 8, memory: 16Gi, nvidia.com/gpu: 4, pods: 110}}
- metadata: {name: c}
  status: {allocatable: {cpu: 16, memory: 32Gi, nvidia.com/gpu: 0, pods: 110}}
"""


@pytest.mark.parametrize("own_cluster", [False, True])
def test_training_leaves_a_model_that_can_be_served(
    proreus: Proreus, tmp_path: Path, own_cluster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proreus.worlds.pods.training.vector.train.VectorRunConfig.validation_seeds", 2)
    words = ["--updates", "2", "--episodes", "2", "--out", str(tmp_path / "run")]
    if own_cluster:
        (tmp_path / "nodes.yaml").write_text(NODES)
        words += ["--nodes", str(tmp_path / "nodes.yaml")]
    ended = proreus("models", "train", *words, "--json", str(tmp_path / "out.json"))
    assert (ended.code, ended.err) == (0, ""), ended
    model = load_vector_model(tmp_path / "run" / "best")
    assert model.accepts(8, 8) is None
    assert (model.accepts(16, 16) is None) != own_cluster
    result = json.loads((tmp_path / "out.json").read_bytes())
    assert result["decisions"] > 0 and any(
        name.startswith("mean completion") for name in result["validation"]
    )
    assert_refused(proreus("models", "train", *words), 2, "holds a run already")


JOBS = """
jobs:
- metadata: {name: job, labels: {sub-time: '1'}}
  spec:
    minAvailable: 4
    tasks:
    - name: task
      replicas: 4
      template:
        spec:
          containers:
          - command: [train, --epochs=1]
            resources: {requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: 1}, limits: {cpu: 600m}}
"""


def test_judging_says_how_the_model_stands_beside_the_rules(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(NODES)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    files = ("--nodes", str(tmp_path / "nodes.yaml"), "--jobs", str(tmp_path / "jobs.yaml"))
    ended = proreus("models", "judge", *files, "--seeds", "2", "--json", str(tmp_path / "out.json"))
    assert (ended.code, ended.err) == (0, ""), ended
    assert "4 tasks on 3 nodes" in ended.out and "gain over" in ended.out
    result = json.loads((tmp_path / "out.json").read_bytes())
    assert [row["policy"] for row in result["jobs"]][-1] == "binpack"
    assert {row["asked"] for row in result["generated"]} == {"likeliest", "drawn", "masked"}
    assert all(row["low"] <= row["gain"] <= row["high"] for row in result["generated"])
    assert_refused(proreus("models", "judge", *files[2:]), 2, "--jobs needs --nodes")
    assert_refused(proreus("models", "judge", "--seeds", "1"), 2, "at least 2")
    assert_refused(proreus("models", "judge", *files, "--model", "vector-k8ssim"), 2, "500 nodes")
    assert_refused(proreus("models", "judge", "--model", str(tmp_path)), 2, "card.json")
