"""Several services over one store, as real processes: one learns, all serve the same, none loses a report."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from proreus.log.folder import LogFolder
from proreus.serving.client.grpc import GrpcClient
from proreus.serving.client.rest import ClientOptions, RestClient, ServiceError
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.progress import read_progress
from tests.cli.runner import command, environment
from tests.serving.door_cases import fresh_checkpoint
from tests.serving.service_process import ServiceProcess
from tests.serving.serving_cases import experience_reader
from tests.serving.test_online import wait_for

NODES = 3
Client = RestClient | GrpcClient


class Side:
    """Services over one store in one folder, and what they acknowledged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.experience = folder / "store" / "fresh" / "experience"
        self.acknowledged: list[int] = []
        self._model = str(fresh_checkpoint(folder / "fresh"))
        self._running: list[ServiceProcess] = []
        self._numbers = 0
        self._lock = threading.Lock()

    def start(self, name: str, door: str) -> ServiceProcess:
        (self.folder / name).mkdir(exist_ok=True)
        words = (
            "--state_dim", str(2 * NODES), "--action_dim", str(2 * NODES + 2), "--policy", "first_fit",
            "--store", str(self.folder / "store"), "--model", self._model, "--deadline_ms", "60000",
        )  # fmt: skip
        more = ("--grpc_port", "0") if door == "all" else ()
        self._running.append(ServiceProcess(self.folder / name, door, *words, *more))
        return self._running[-1]

    def client(self, service: ServiceProcess) -> Client:
        if "rest" in service.about:
            return RestClient(f"http://127.0.0.1:{service.rest}", ClientOptions(timeout=20.0))
        return GrpcClient(f"127.0.0.1:{service.grpc}")

    def report(self, client: Client, steps: int = 32) -> None:
        """Ask, and report steps whose reward is a number of their own."""
        with self._lock:
            first, self._numbers = self._numbers, self._numbers + steps
        random = np.random.default_rng(first)
        states = [random.random(2 * NODES) for _ in range(steps)]
        actions = [client.predict(state).action for state in states]
        client.update(states, (actions, [float(first + k) for k in range(steps)], [True] * steps))
        with self._lock:
            self.acknowledged += range(first, first + steps)

    def logged(self) -> set[int]:
        logs = [self.experience / name for name in LogFolder(self.experience).names()]
        return {int(reward) for log in logs for _, x in experience_reader(log).poll() for reward in x.rewards}

    def rounds(self) -> int:
        return read_progress(self.experience).rounds

    def learned(self, name: str) -> int:
        return read_progress(self.experience).of(name).next

    def end(self) -> None:
        for service in self._running:
            service.kill()


@contextmanager
def side_by_side(folder: Path) -> Iterator[Side]:
    side = Side(folder)
    try:
        yield side
    finally:
        side.end()


def processes_of(group: int) -> list[int]:
    """Living processes of a process group."""
    processes = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if entry.name.isdecimal() and int(fields[2]) == group and fields[0] != "Z":
            processes.append(int(entry.name))
    return processes


def same_version(clients: list[Client], store: ModelStore) -> Callable[[], bool]:
    nothing_runs, state = np.zeros(2 * NODES), np.full(2 * NODES, 0.25)

    def agree() -> bool:
        # Each service remembers of each client which nodes refused, until nothing runs there any more. Else
        # two that serve the same version may answer differently.
        for client in clients:
            client.predict(nothing_runs)
        answers = [client.predict(state) for client in clients]
        live = store.current("fresh")
        return all((a.model_version, a.action) == (live, answers[0].action) for a in answers)

    return agree


@pytest.mark.timeout(400)
@pytest.mark.parametrize("doors", [("rest", "grpc"), ("all", "rest")])
def test_both_serve_the_same_one_learns_and_the_other_takes_over(
    tmp_path: Path, doors: tuple[str, str]
) -> None:
    with side_by_side(tmp_path) as side, ExitStack() as stack:
        services = [side.start(f"service {k}", door) for k, door in enumerate(doors)]
        clients: list[Client] = [side.client(service) for service in services]
        for client in clients:
            stack.callback(client.close)
        store = ModelStore(tmp_path / "store")
        assert [record.version for record in store.versions("fresh")] == [1]
        assert same_version(clients, store)()
        for _ in range(3):
            for client in clients:
                side.report(client)
        # One process learns from what was reported to both. A round needs two reports: where one begins with
        # five, the sixth waits for more.
        wait_for(lambda: min(side.learned(""), side.learned("2")) >= 2, 150)
        assert len(processes_of(services[0].process.pid)) > len(processes_of(services[1].process.pid))
        wait_for(same_version(clients, store), 60)
        # It is killed while reports come in at both.
        stop = threading.Event()

        def keep_reporting(service: ServiceProcess) -> None:
            with side.client(service) as client:
                while not stop.is_set():
                    try:
                        side.report(client, 16)
                    except ServiceError:
                        return

        threads = [threading.Thread(target=keep_reporting, args=(service,)) for service in services]
        for thread in threads:
            thread.start()
        time.sleep(0.7)
        services[0].process.kill()
        services[0].process.wait(30)
        killed_at = side.rounds()
        wait_for(lambda: not processes_of(services[0].process.pid), 60)  # its learner is gone too
        wait_for(lambda: side.rounds() > killed_at, 60)  # the other one learns now
        stop.set()
        for thread in threads:
            thread.join(60)
        assert set(side.acknowledged) <= side.logged()
        assert len(side.acknowledged) > 6 * 32
        # Come back, it takes its old log and follows.
        again = side.start("service 0", doors[0])
        clients = [side.client(again), clients[1]]
        stack.callback(clients[0].close)
        side.report(clients[0])
        before = side.learned("")
        wait_for(lambda: side.learned("") >= before, 60)
        # Each round that is still to be learned makes another version: on busy cores there are many.
        wait_for(same_version(clients, store), 200)
        assert LogFolder(side.experience).names() == ["", "2"]
        assert set(side.acknowledged) <= side.logged()
        assert [service.end() for service in (again, services[1])] == [0, 0]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("after", [0.6, 1.0, 2.0])
def test_a_service_told_to_end_right_after_its_start_ends_soon_and_cleanly(
    tmp_path: Path, after: float
) -> None:
    words = ("--state_dim", "6", "--action_dim", "8", "--port", "0", "--policy", "first_fit")
    model = str(fresh_checkpoint(tmp_path / "fresh"))
    process = subprocess.Popen(
        command("serve", "rest", *words, "--model", model, "--store", str(tmp_path / "store")),
        env=environment(),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert b"loading" in process.stderr.readline()  # from here on it listens to signals
    time.sleep(after - 0.6)
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and b"Traceback" not in errors
    assert time.monotonic() - begin < 45.0
    wait_for(lambda: not processes_of(process.pid))
