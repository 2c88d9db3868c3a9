"""Model versions: complete or not there, checked when loaded, and one of them live."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from proreus.model.errors import InputError, UsageError, WorkError
from proreus.model.files import write_atomically
from proreus.policies.checkpoint import WEIGHTS
from proreus.serving.model_version import CURRENT
from proreus.serving.models import version_store
from proreus.serving.models.version_store import ModelStore
from proreus.worlds.pods.policies.vector.model import checkpoint_of, fresh_scorer
from tests.serving.serving_cases import ACTIONS, STATE, a_store
from tests.worlds.pods.vector_models import fresh_mlp


def test_the_first_version_is_live_and_later_ones_wait_to_be_promoted(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    second = store.add("vector", checkpoint_of(fresh_mlp(STATE, ACTIONS, 1), "none"), "other", parent=1)
    assert (second, store.current("vector")) == (2, 1)
    store.promote("vector", 2)
    records = store.versions("vector")
    assert [(r.version, r.state, r.note, r.parent) for r in records] == [
        (1, "kept", "fresh", None),
        (2, "live", "other", 1),
    ]
    assert store.load("vector").kind == "vector-mlp" and store.load("vector", 1).kind == "vector-scorer"
    assert records[1].bytes == (tmp_path / "vector" / "2" / WEIGHTS).stat().st_size
    assert len(records[0].sha256) == 64 and records[0].created.endswith("Z")


def test_rollback_goes_back_through_what_was_live(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    for k in (2, 3):
        store.add("vector", checkpoint_of(fresh_scorer(k), "none"), "")
        store.promote("vector", k)
    assert store.rollback("vector") == 2
    store.promote("vector", 3)
    assert [store.rollback("vector"), store.rollback("vector")] == [2, 1]
    with pytest.raises(UsageError, match="no version was live before 1"):
        store.rollback("vector")


def test_a_rejected_version_is_kept_and_marked_and_may_still_be_promoted(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.add("vector", checkpoint_of(fresh_scorer(2), "none"), "worse: -1", parent=1, rejected=True)
    assert [r.state for r in store.versions("vector")] == ["live", "rejected"]
    store.promote("vector", 2)
    assert [r.state for r in store.versions("vector")] == ["kept", "live"]


def test_gc_spares_the_newest_the_live_one_and_the_way_back(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    for k in range(2, 9):
        store.add("vector", checkpoint_of(fresh_scorer(k), "none"), "")
    store.promote("vector", 3)
    (tmp_path / "vector" / ".new-left-by-a-crash").mkdir()
    assert store.gc("vector", keep=2) == [2, 4, 5, 6]
    assert [r.version for r in store.versions("vector")] == [1, 3, 7, 8]
    assert not list((tmp_path / "vector").glob(".new-*"))
    assert store.add("vector", checkpoint_of(fresh_scorer(9), "none"), "") == 9  # numbers are never reused
    with pytest.raises(UsageError, match="at least 1"):
        store.gc("vector", keep=0)


def test_a_failure_at_any_step_of_adding_leaves_no_half_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = a_store(tmp_path)
    steps = 0

    def adding_fails_at(step: int) -> bool:
        count = 0

        def maybe_fail(path: Path, content: bytes, *, private: bool) -> None:
            nonlocal count
            count += 1
            if count > step:
                raise WorkError("the disk is gone")
            write_atomically(path, content, private=private)

        def maybe_fail_durable(folder: Path) -> None:
            nonlocal count
            count += 1
            if count > step:
                raise WorkError("the disk is gone")

        with monkeypatch.context() as patched:
            patched.setattr(version_store, "write_atomically", maybe_fail)
            patched.setattr(version_store, "_make_durable", maybe_fail_durable)
            try:
                store.add("vector", checkpoint_of(fresh_scorer(3), "none"), "")
            except WorkError:
                return True
            return False

    while adding_fails_at(steps):
        for record in store.versions("vector"):
            store.load("vector", record.version)
        assert store.current("vector") == 1
        steps += 1
    assert steps >= 3


def test_damage_is_said_with_the_file_and_never_promoted(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.add("vector", checkpoint_of(fresh_scorer(2), "none"), "")
    path = tmp_path / "vector" / "2" / WEIGHTS
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    for action in (lambda: store.load("vector", 2), lambda: store.promote("vector", 2)):
        with pytest.raises(InputError, match="checksum"):
            action()
    assert store.current("vector") == 1
    (tmp_path / "vector" / CURRENT).write_text('{"live": "soon"}')
    with pytest.raises(InputError, match="does not say which version is live"):
        store.current("vector")
    (tmp_path / "vector" / CURRENT).write_text("[")
    with pytest.raises(InputError, match=r"current: not JSON"):
        store.load("vector")


def test_unknown_names_and_versions_are_bad_usage(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with pytest.raises(UsageError, match="unknown model 'vectr'; did you mean 'vector'"):
        store.load("vectr")
    with pytest.raises(UsageError, match=r"vector has no version 7 \(known: 1\)"):
        store.load("vector", 7)
    with pytest.raises(UsageError, match="cannot be the name of a model"):
        store.add("../elsewhere", checkpoint_of(fresh_scorer(0), "none"), "")
    assert ModelStore.open(tmp_path / "empty").names() == []


def test_writers_take_turns(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    found: list[int] = []

    def add(seed: int) -> None:
        for k in range(5):
            checkpoint = checkpoint_of(fresh_scorer(10 * seed + k), "none")
            found.append(ModelStore(tmp_path).add("vector", checkpoint, f"by {seed}"))

    threads = [threading.Thread(target=add, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(2, 22))
    state = np.linspace(0.0, 1.0, STATE)
    for record in store.versions("vector"):
        assert store.load("vector", record.version).accepts(STATE, ACTIONS) is None
    assert json.loads((tmp_path / "vector" / CURRENT).read_text())["live"] == 1
    assert store.load("vector").chances(state, ACTIONS, None).sum() == pytest.approx(1.0)
