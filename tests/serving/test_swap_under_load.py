"""64 clients over both doors while experience comes in, a learner learns and versions change."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

from proreus.serving.client.grpc import GrpcClient
from proreus.serving.client.rest import ClientOptions, RestClient
from proreus.serving.messages import PredictAnswer
from proreus.serving.online.learner import OnlineSettings
from proreus.serving.service import Learning
from proreus.worlds.pods.policies.vector.model import VectorModel, checkpoint_of, draw_of, fresh_scorer
from tests.serving.door_cases import DIMENSIONS, Doors, open_doors, serving_options

CLIENTS = 64
LEAST_HEARD, LEAST_REPORTED = 1_000, 200
PATIENCE = 120.0
PATIENT = ClientOptions(timeout=PATIENCE)


class Crowd:
    """Clients that ask until they are stopped, and what they heard."""

    def __init__(self, doors: Doors) -> None:
        self.doors = doors
        self.stop = threading.Event()
        self.heard: list[tuple[np.ndarray, PredictAnswer]] = []
        self.failures: list[BaseException] = []
        self.reported = 0

    def run(self, work: object, *arguments: object) -> threading.Thread:
        def guarded() -> None:
            try:
                work(*arguments)  # type: ignore[operator]
            except BaseException as error:  # noqa: BLE001 - the test fails with what happened
                self.failures.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def ask(self, number: int) -> None:
        rng = np.random.default_rng(number)
        kind = RestClient if number % 2 else GrpcClient
        with kind(self.doors.url if number % 2 else self.doors.address, PATIENT) as client:
            while not self.stop.is_set():
                state = rng.random(DIMENSIONS.lengths[number % 3 == 0])
                self.heard.append((state, client.predict(state)))

    def report(self, number: int) -> None:
        rng = np.random.default_rng(1000 + number)
        with RestClient(self.doors.url, PATIENT) as client:
            while not self.stop.is_set():
                states = [rng.random(6) for _ in range(32)]
                answers = [client.predict(state) for state in states]
                rewards = [float(answer.action == 0) for answer in answers]
                update_answer = client.update(
                    states, ([a.action for a in answers], rewards, [False] * 31 + [True])
                )
                self.reported += update_answer.logged

    def has_seen_enough(self, rounds: int) -> bool:
        """Whether it was answered often, by more than one version, while something was learned."""
        versions = {answer.model_version for _, answer in tuple(self.heard)}
        enough = len(self.heard) >= LEAST_HEARD and self.reported >= LEAST_REPORTED
        return rounds > 0 and enough and len(versions) > 1

    def promote(self) -> None:
        with RestClient(self.doors.url, PATIENT) as client:
            while not self.stop.is_set():
                for version in (1, 2):
                    client.promote(version)
                    time.sleep(0.05)


def test_no_request_fails_and_every_answer_is_what_its_version_answers(tmp_path: Path) -> None:
    learning = Learning(
        "proreus.worlds.pods.training.vector.recorded_ppo:improve",
        OnlineSettings(batch_size=256, poll_seconds=0.05, niceness=0),
    )
    # A busy machine must not leave answers to the rule: whose they are is what is looked at.
    options = serving_options(tmp_path, learning=learning, service={"deadline_seconds": PATIENCE})
    doors = open_doors(options)
    try:
        _drive(doors)
    finally:
        doors.running.stop(2.0)


def _drive(doors: Doors) -> None:
    versions = doors.running.application.versions
    versions.store.add(versions.name, checkpoint_of(fresh_scorer(1), "none"), "another")
    crowd = Crowd(doors)
    threads = [crowd.run(crowd.report, number) for number in range(2)]
    learner = doors.running._learning
    assert learner is not None
    deadline = time.monotonic() + PATIENCE
    while learner.status().state == "starting" and time.monotonic() < deadline:
        time.sleep(0.05)
    threads += [crowd.run(crowd.ask, number) for number in range(CLIENTS)]
    threads.append(crowd.run(crowd.promote))
    while not crowd.has_seen_enough(learner.status().rounds) and time.monotonic() < deadline:
        time.sleep(0.05)
    crowd.stop.set()
    for thread in threads:
        thread.join(120)
    assert crowd.failures == []
    assert learner.status().rounds > 0, learner.status()
    assert learner.status().failure == ""
    assert len(crowd.heard) >= LEAST_HEARD and crowd.reported >= LEAST_REPORTED
    _check(doors, crowd.heard)


def _check(doors: Doors, heard: list[tuple[np.ndarray, PredictAnswer]]) -> None:
    versions = doors.running.application.versions
    existed = {record.version for record in versions.store.versions(versions.name)}
    models: dict[int, VectorModel] = {}
    for state, answer in heard:
        version = answer.model_version
        assert version in existed
        if version not in models:
            models[version] = versions.store.load(versions.name, version)
        draw = draw_of(0, version, state)
        action, log_prob = models[version].decide(state, DIMENSIONS.actions, None, draw)
        if answer.decided_by == "model":
            assert (answer.action, answer.log_prob) == (action, log_prob)
    by_model = sum(answer.decided_by == "model" for _, answer in heard)
    assert by_model > 0.99 * len(heard)
    assert len(models) > 1
