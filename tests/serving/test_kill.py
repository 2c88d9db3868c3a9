"""kill -9 while experience comes in: what was acknowledged is there, and a complete version is served.

The suite kills twice; PROREUS_KILLS=100 pytest tests/serving/test_kill.py kills a hundred times.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from proreus.cli.log_places import logs_at
from proreus.serving.client.rest import ClientOptions, RestClient, ServiceError
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.experience_log import records_of
from tests.serving.door_cases import fresh_checkpoint
from tests.serving.service_process import ServiceProcess

KILLS = int(os.environ.get("PROREUS_KILLS", "2"))
REPORTERS = 3
PATIENCE = 60.0
ONE_TRY = ClientOptions(timeout=PATIENCE, retries=0)


def _report(url: str, numbers: list[int], acknowledged: list[int]) -> None:
    """Report steps whose reward is a number of their own, until the service is gone."""
    rng = np.random.default_rng(numbers[0])
    with RestClient(url, ONE_TRY) as client:
        for first in numbers:
            states = [rng.random(6) for _ in range(16)]
            try:
                actions = [client.predict(state).action for state in states]
                rewards = [float(first + k) for k in range(16)]
                client.update(states, (actions, rewards, [False] * 15 + [True]))
            except ServiceError:
                return
            acknowledged.extend(range(first, first + 16))


@pytest.mark.timeout(240 + 90 * KILLS)
@pytest.mark.parametrize("kept", ["files", "sqlite"])
def test_every_acknowledged_step_survives_and_the_served_version_is_complete(
    kept: str, tmp_path: Path
) -> None:
    words = (
        "--state_dim", "6", "--action_dim", "8", "--store", str(tmp_path / "store"),
        "--model", str(fresh_checkpoint(tmp_path / "fresh")), "--policy", "first_fit",
        *(() if kept == "files" else ("--log", f"sqlite:{tmp_path / 'log.db'}")),
    )  # fmt: skip
    chance = random.Random(0)
    acknowledged: list[int] = []
    number = 0
    for _ in range(KILLS if kept == "files" else (KILLS + 1) // 2):
        service = ServiceProcess(tmp_path, "rest", *words)
        url = f"http://127.0.0.1:{service.rest}"
        with RestClient(url, ONE_TRY) as client:
            assert client.health().status == "ok"
        reporters = []
        for _ in range(REPORTERS):
            numbers = list(range(number, number + 100_000, 16))
            number += 100_000
            reporters.append(threading.Thread(target=_report, args=(url, numbers, acknowledged)))
            reporters[-1].start()
        wanted = len(acknowledged) + 16 * chance.randrange(2, 40)
        deadline = time.monotonic() + PATIENCE
        while len(acknowledged) < wanted and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.05))  # into whatever comes next
        service.kill()
        for reporter in reporters:
            reporter.join(PATIENCE)
        _check(tmp_path, acknowledged)
    # It starts once more from what is left, and answers with the version that the store calls live.
    service = ServiceProcess(tmp_path, "rest", *words)
    with RestClient(f"http://127.0.0.1:{service.rest}") as client:
        store = ModelStore(tmp_path / "store")
        assert client.predict(np.zeros(6)).model_version == store.current("fresh")
    assert service.end() == 0
    assert len(acknowledged) >= 2 * 16 * (KILLS // 2)
    assert (tmp_path / "log.db").exists() == (kept == "sqlite")


def _check(folder: Path, acknowledged: list[int]) -> None:
    store = ModelStore(folder / "store")
    logged = set()
    for log in logs_at(str(folder / "log.db" if (folder / "log.db").exists() else folder / "store")):
        reader = log.reader()
        logged |= {int(r) for part in reader.poll() for record in records_of(part) for r in record.rewards}
        reader.close()
    assert set(acknowledged) <= logged
    assert store.load("fresh", store.current("fresh")) is not None
    for record in store.versions("fresh"):
        store.load("fresh", record.version)
