"""Which model is served: by path, by name, by version, or the one that comes with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from proreus.model.errors import InputError, UsageError
from proreus.serving.models.model_argument import make_live
from proreus.serving.models.version_store import ModelStore
from proreus.worlds.pods.policies.catalogue import POLICIES
from proreus.worlds.pods.policies.vector.model import SHIPPED
from tests.serving.door_cases import fresh_checkpoint


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore.open(tmp_path / "store")


def test_without_a_wish_the_package_has_one(store: ModelStore) -> None:
    assert make_live(store, "") == "vector"
    assert make_live(store, "vector") == "vector"
    assert make_live(store, "", 500) == "vector"  # what is stored goes on
    assert [record.note for record in store.versions("vector")] == ["came with the package"]


def test_a_path_is_added_once_and_then_goes_on_as_learned(store: ModelStore, tmp_path: Path) -> None:
    path = fresh_checkpoint(tmp_path / "mine")
    assert make_live(store, str(path)) == "mine"
    learned = store.add("mine", store.checkpoint("mine", 1), "learned", 1)
    store.promote("mine", learned)
    assert make_live(store, str(path)) == "mine"
    assert (store.current("mine"), len(store.versions("mine"))) == (learned, 2)
    fresh_checkpoint(path, seed=1)
    make_live(store, f"{path}/")
    assert (store.current("mine"), len(store.versions("mine"))) == (3, 3)


def test_names_and_versions(store: ModelStore, tmp_path: Path) -> None:
    make_live(store, str(fresh_checkpoint(tmp_path / "mine")))
    make_live(store, str(fresh_checkpoint(tmp_path / "mine", seed=1)))
    assert make_live(store, "mine") == "mine" and store.current("mine") == 2
    assert make_live(store, "mine@1") == "mine" and store.current("mine") == 1
    with pytest.raises(UsageError, match="no version 7"):
        make_live(store, "mine@7")


@pytest.mark.parametrize("wanted", ["nobody", "nobody@2", "no/such/place", "./nothing"])
def test_what_is_not_there_is_one_line(store: ModelStore, wanted: str) -> None:
    with pytest.raises((UsageError, InputError)) as caught:
        make_live(store, wanted)
    assert "nobody" in str(caught.value) or "no checkpoint" in str(caught.value)


def test_a_policy_over_pods_is_sent_to_the_other_door(tmp_path: Path) -> None:
    policy = POLICIES.shipped
    assert policy is not None
    run, store = tmp_path / "run", tmp_path / "store"
    run.mkdir()
    store.mkdir()
    (run / "best").symlink_to(policy)
    for path in (run, run / "best"):
        with pytest.raises(InputError, match=r"serve it to /v1/decide with --policy .*run/best"):
            make_live(ModelStore(store), str(path))


def test_the_folder_of_a_run_stands_for_its_best(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    run.mkdir()
    store.mkdir()
    (run / "best").symlink_to(SHIPPED["vector"])
    assert make_live(ModelStore(store), str(run)) == "run"
