"""The store against damaged files and leftovers: one bad version costs that version alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.model.errors import InputError, WorkError
from proreus.policies.checkpoint import read_card
from proreus.serving.client.grpc import GrpcClient
from proreus.serving.client.rest import ServiceError
from proreus.serving.decision_service import Question
from proreus.serving.models.live_version import LiveVersions
from proreus.serving.models.model_argument import make_live
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.learner import OnlineLearner, OnlineSettings
from proreus.serving.pending_decisions import PendingDecision, RecentDecisions, shelf_of
from proreus.serving.service import RunningService
from proreus.worlds.pods.policies.vector.model import checkpoint_of, fresh_scorer
from tests.cli.runner import environment
from tests.serving.attacks.test_log import FullDisk
from tests.serving.door_cases import Doors, ask, new_service, open_doors, serving_options
from tests.serving.serving_cases import a_store, experience_log, experience_reader, places, played
from tests.serving.test_online import IMPROVE, LEARN, wait_for

ROOT = Path(__file__).resolve().parents[3]
BAD_CARDS: list[dict[str, Any]] = [
    {"scores": [1, 2]},
    {"scores": {"a": "high"}},
    {"steps": "many"},
    {"steps": 10**40},
    {"trained_on": 5},
    {"config": "x"},
    {"seconds": None},
    {"created": 7},
]
BAD_RECORDS = ["{", "[]", '{"parent": "one"}', '{"parent": 1e40}', "[" * 100_000, ""]


def damage_card(folder: Path, changes: dict[str, Any]) -> None:
    path = folder / "card.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Doors, ModelStore]]:
    folder = tmp_path_factory.mktemp("damaged")
    doors = open_doors(serving_options(folder, service={"deadline_seconds": 60.0}))
    yield doors, ModelStore(folder / "store")
    doors.running.stop(2.0)


def add(store: ModelStore, seed: int) -> tuple[int, Path]:
    version = store.add("fresh", checkpoint_of(fresh_scorer(seed), "none"), "to be damaged")
    return version, store.folder / "fresh" / str(version)


def check_answers(doors: Doors, version: int) -> None:
    """Nothing answers 500: the version is listed as damaged, refused, and the others are there."""
    listed = ask(doors.rest, "/v1/models")
    assert listed.status == 200
    entries = {entry["version"]: entry for entry in listed.json["versions"]}
    assert entries[version]["state"] == "damaged" and entries[version]["note"]
    assert entries[1]["state"] == "live"
    assert ask(doors.rest, f"/v1/models/{version}").status == 409
    assert ask(doors.rest, "/predict", {"state": [0.5] * 6}).status == 200


@pytest.mark.parametrize("changes", BAD_CARDS)
def test_an_odd_card_costs_that_version_alone(
    opened: tuple[Doors, ModelStore], changes: dict[str, Any]
) -> None:
    doors, store = opened
    version, folder = add(store, 1)
    damage_card(folder, changes)
    check_answers(doors, version)
    assert ask(doors.rest, f"/v1/models/{version}/promote", {}).status == 409
    with pytest.raises(InputError, match=f"card.json: {next(iter(changes))}: not "):
        read_card(folder / "card.json")


@pytest.mark.parametrize("content", BAD_RECORDS, ids=range(len(BAD_RECORDS)))
def test_a_bad_record_costs_that_version_alone(opened: tuple[Doors, ModelStore], content: str) -> None:
    doors, store = opened
    version, folder = add(store, 2)
    (folder / "record.json").write_text(content)
    check_answers(doors, version)
    state = [0.5] * 6
    report = {"states": [state], "actions": [0], "rewards": [1.0], "dones": [True], "model_version": version}
    assert ask(doors.rest, "/update", report).status == 200  # the version did decide


@pytest.mark.parametrize("pointer", ["{", "[]", '{"live": 10, "before": 3}', '{"live": 1e400, "before": []}'])
def test_a_bad_pointer_is_no_500_and_promoting_mends_it(
    opened: tuple[Doors, ModelStore], pointer: str
) -> None:
    doors, store = opened
    (store.folder / "fresh" / "current").write_text(pointer)
    time.sleep(0.8)  # the watcher has seen it
    assert ask(doors.rest, "/v1/models").status == 200
    assert ask(doors.rest, "/v1/models/1").status == 200
    assert ask(doors.rest, "/v1/models/rollback", {}).status == 409
    assert ask(doors.rest, "/predict", {"state": [0.5] * 6}).json["model_version"] == 1
    assert ask(doors.rest, "/v1/models/1/promote", {}).status == 200
    assert store.current("fresh") == 1


def test_the_watcher_comes_back_after_whatever_it_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = a_store(tmp_path)
    second = store.add("vector", checkpoint_of(fresh_scorer(1), "none"), "")
    service = new_service(store.load("vector"))
    versions = LiveVersions(store, "vector", service)
    versions.follow_in_background()
    with monkeypatch.context() as patched:

        def broken(name: str, version: int | None = None) -> Any:
            raise RuntimeError("nobody thought of this")

        patched.setattr(store, "load", broken)
        store_of_another = ModelStore(tmp_path)
        store_of_another.promote("vector", second)
        time.sleep(1.2)
        assert service.version == 1
        store_of_another.rollback("vector")
        time.sleep(0.7)
    third = store.add("vector", checkpoint_of(fresh_scorer(2), "none"), "")
    store.promote("vector", third)
    wait_for(lambda: service.version == third)
    versions.stop()


def test_a_damaged_live_version_does_not_end_the_learner(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    model = store.load("vector")
    (tmp_path / "models" / "vector" / "current").write_text("{")
    learner = OnlineLearner(
        places(tmp_path),
        IMPROVE,
        OnlineSettings(poll_seconds=0.05, niceness=0, learner=LEARN),
    )
    learner.start()
    log.append(played(model, 0, 512))
    wait_for(lambda: learner.status().rounds == 1)
    assert "current" in learner.status().failure
    ModelStore(tmp_path / "models").promote("vector", 1)
    log.append(played(model, 1, 512))
    wait_for(lambda: learner.status().accepted + learner.status().rejected >= 1)
    assert learner.status().restarts == 0
    learner.stop()
    log.close()


def test_leftovers_of_killed_processes_are_swept_at_the_start(tmp_path: Path) -> None:
    options = serving_options(tmp_path)
    RunningService(options).stop(0.0)
    place = tmp_path / "store" / "fresh"
    left = [place / ".0123456789abcdef.tmp", place / ".new-0123456789abcdef" / "card.json"]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")
    (place / "notes.tmp").write_text("somebody's own")
    RunningService(options).stop(0.0)
    assert not any(path.exists() for path in left) and (place / "notes.tmp").exists()


def test_a_version_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = a_store(tmp_path)
    before = sorted(path.name for path in (tmp_path / "vector").iterdir())

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(WorkError, match="No space left"):
            store.add("vector", checkpoint_of(fresh_scorer(3), "none"), "")
    assert sorted(path.name for path in (tmp_path / "vector").iterdir()) == before


def test_of_two_that_start_side_by_side_one_adds_the_model(tmp_path: Path) -> None:
    begin = threading.Barrier(4)

    def start() -> None:
        begin.wait()
        make_live(ModelStore.open(tmp_path), "")

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.version for record in ModelStore(tmp_path).versions("vector")] == [1]


def another_than(client: str) -> str:
    """A client on another shelf: of the many clients, some share one by chance."""
    return next(name for name in map(str, count()) if shelf_of(name) != shelf_of(client))


def test_a_client_that_asks_without_end_makes_the_service_forget_its_own_decisions() -> None:
    service = new_service(remembered=1000)
    asked = [np.full(6, k / 100.0) for k in range(100)]
    actions = [service.predict(Question(state, client="honest"), "test").action for state in asked]
    flood = another_than("honest")
    for k in range(3000):
        service.predict(Question(np.full(6, 2.0 + k), client=flood), "test")
    assert len(service.recent) == 1000
    for state, action in zip(asked, actions, strict=True):
        assert service.recent.find(state, action, "honest") is not None
        assert service.recent.find(state, action, "another address") is not None  # who reports may be another
    assert service.recent.find(np.full(6, 2.0), 0, flood) is None


def test_what_a_client_was_told_is_not_changed_by_what_another_asks() -> None:
    recent = RecentDecisions(8)
    state = np.zeros(6)
    drawn, greedy = PendingDecision(-1.0, 1, True, None), PendingDecision(0.0, 1, False, None)
    recent.add(state, 3, drawn, "honest")
    hostile = another_than("honest")
    recent.add(state, 3, greedy, hostile)
    assert recent.find(state, 3, "honest") == drawn and recent.find(state, 3, hostile) == greedy
    for k in range(20):
        recent.add(np.full(6, 1.0 + k), 0, drawn, f"client {k}")
    assert len(recent) == 8 and recent.find(np.full(6, 20.0), 0, "client 19") == drawn


def test_the_learner_ends_with_the_service_in_the_middle_of_a_round(tmp_path: Path) -> None:
    """A process that is killed -9 leaves no learner behind; the one of `held_connections` never ends by
    itself.
    """
    service = subprocess.Popen(
        [sys.executable, "-m", "tests.serving.attacks.held_connections", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
    )
    wait_for((tmp_path / "pid").exists)
    learner = int((tmp_path / "pid").read_text())
    assert not _is_dead(learner)
    service.kill()
    service.wait(30)
    wait_for(lambda: _is_dead(learner))


def _is_dead(process: int) -> bool:
    """Ended, even where whoever inherited it has not waited for it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_full_disk_is_told_by_both_doors_and_over_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, 0)
    doors = open_doors(serving_options(tmp_path, service={"deadline_seconds": 60.0}))
    state = [0.5] * 6
    report = {"states": [state], "actions": [0], "rewards": [1.0], "dones": [True]}
    try:
        with monkeypatch.context() as patched:
            nothing = os.statvfs_result((4096, 4096, 9, 0, 0, 0, 0, 0, 0, 255))
            patched.setattr(os, "statvfs", lambda _: nothing)
            refused = ask(doors.rest, "/update", report)
            assert refused.status == 503 and refused.headers["retry-after"] == "1"
            assert refused.json["error"] == "experience cannot be logged now: No space left on device"
            health = ask(doors.rest, "/health")
            assert health.status == 200
            assert (health.json["status"], health.json["trouble"]) == ("degraded", "No space left on device")
            with GrpcClient(doors.address) as client, pytest.raises(ServiceError) as caught:
                client.update([state], ([0], [1.0], [True]))
            # UNAVAILABLE, as 503 is: whoever asks by gRPC tries again, as with a service that is away.
            assert caught.value.code == "unreachable" and "No space left" in str(caught.value)
            assert ask(doors.rest, "/predict", {"state": state}).status == 200
        disk.room = 1 << 20
        assert ask(doors.rest, "/health").json["status"] == "ok"
        assert ask(doors.rest, "/update", report).status == 200
        assert (
            sum(
                1
                for _ in experience_reader(
                    doors.running.options.store / doors.running.name / "experience"
                ).poll()
            )
            == 1
        )
    finally:
        doors.running.stop(2.0)
