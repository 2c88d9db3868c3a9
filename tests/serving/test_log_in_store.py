"""Experience in a store of the engine: reported over the wire, learned from, and nobody else's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from proreus.engine.store.log.places import StorePlace
from proreus.log.folder import LogFolder
from proreus.log.protocol import LogLimits, PartTooLarge
from proreus.model.errors import UsageError, WorkError
from proreus.serving.messages import Refused, UpdateRequest
from proreus.serving.online.experience_log import ExperienceLog, ExperienceReader
from proreus.serving.online.feedback import Feedback
from proreus.serving.online.model_id import owner_of
from proreus.serving.online.progress import read_progress
from proreus.serving.online.worker import Worker
from proreus.serving.service import EXPERIENCE, RunningService
from proreus.worlds.pods.training.vector.recorded_ppo import improve
from tests.serving.door_cases import ask, new_service, open_doors, serving_options
from tests.serving.serving_cases import a_store, experience_log, played
from tests.serving.test_online import a_job


def rewards_in(place: StorePlace) -> list[float]:
    (name,) = place.names()
    reader = ExperienceReader(place.reader(name))
    rewards = [float(reward) for _, record in reader.poll() for reward in record.rewards]
    reader.close()
    return rewards


def test_a_service_keeps_reports_in_the_store_and_nobody_else_takes_its_log(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path / 'log.db'}"
    keeping = partial(StorePlace.of, address)
    report = {"states": [[0.5] * 6], "actions": [0], "dones": [True]}
    doors = open_doors(serving_options(tmp_path / "one", log_in=keeping))
    try:
        for k in range(3):
            assert ask(doors.rest, "/update", {**report, "rewards": [float(k)]}).status == 200
        assert ask(doors.rest, "/health").json["status"] == "ok"
        experience = tmp_path / "one" / "store" / doors.running.name / EXPERIENCE
        assert rewards_in(keeping(doors.running.name, "")) == [0.0, 1.0, 2.0]  # while it runs
        assert not list(experience.glob("*.log"))
    finally:
        doors.running.stop(2.0)
    # Another process of the same folder writes on; one of another folder is refused.
    again = RunningService(serving_options(tmp_path / "one", log_in=keeping))
    assert again.log.next_number == 3
    again.stop(0.0)
    with pytest.raises(UsageError, match=r"log\.db#fresh: this log is of a model in another folder"):
        RunningService(serving_options(tmp_path / "two", log_in=keeping))


def test_the_folder_has_one_id(tmp_path: Path) -> None:
    first = owner_of(tmp_path)
    assert first == owner_of(tmp_path) and len(first) == 16
    assert [path.name for path in tmp_path.iterdir()] == ["owner"]


def test_a_learner_goes_on_from_files_to_the_store_and_leaves_nothing_out(tmp_path: Path) -> None:
    models, folder = a_store(tmp_path / "models"), tmp_path / "log"
    model = models.load("vector")
    before = experience_log(folder)
    before.append(played(model, 0, 64))
    before.close()
    place = StorePlace.of(f"sqlite:{tmp_path / 'log.db'}", "vector", "me")
    (name,) = place.names()
    log = ExperienceLog(place.open(LogLimits(), lambda name: read_progress(folder).of(name).next))
    log.append(played(model, 1, 64))
    job = a_job(tmp_path, logs=(place, LogFolder(folder)))
    worker = Worker(job, improve)
    worker.take()
    assert worker.queue == 2 * 48 and worker.ready()
    worker.learn()
    assert [read_progress(folder).of(one).next for one in ("", name)] == [1, 1]
    log.append(played(model, 2, 64))
    again = Worker(job, improve)  # killed, and started again
    again.take()
    assert again.queue == 48
    for one in (worker, again):
        one.close()
    log.close()


def test_a_store_that_is_not_there_is_said_and_does_not_end_the_learner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_store(tmp_path / "models")
    (tmp_path / "log").mkdir()
    place = StorePlace.of(f"sqlite:{tmp_path / 'none.db'}", "vector", "me")
    worker = Worker(a_job(tmp_path, logs=(place,)), improve)
    assert not worker.take() and not worker.take()
    assert caplog.text.count("there is no such store; trying again") == 1
    worker.close()


@pytest.mark.parametrize("address", ["memory:", "redis:x", "sqlite:", "etcd://nowhere"])
def test_an_address_that_keeps_nothing_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as exception_info:
        StorePlace.of(address, "m", "o")
    assert "\n" not in str(exception_info.value)


def test_a_place_that_cannot_be_opened_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkError, match="the log cannot be opened"):
        StorePlace.of(str(tmp_path / "file" / "log.db"), "m", "o").open(LogLimits(), lambda _: 0)


def test_a_report_that_no_log_takes_is_the_clients_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = experience_log(tmp_path)

    def too_large(*_: object) -> int:
        raise PartTooLarge("9 bytes: etcd: request is too large")

    monkeypatch.setattr(log, "append", too_large)
    feedback = Feedback(new_service(), log, None, lambda _: True)
    with pytest.raises(Refused, match="states: the report is too large: 9 bytes"):
        feedback.take(UpdateRequest([np.zeros(6).tolist()], [0], rewards=[1.0], dones=[True]))
    log.close()
