"""The ticked runtime of the k8s simulator: closed forms by hand, and an obvious loop over seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.node import Node, Pace
from proreus.model.pod import Pod
from proreus.model.workload import Workload
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.simulation.ticked_runtime import cpu_yield
from proreus.worlds.pods.state.compile import compile_workload
from tests.oracles.kube_builders import node, pod

LARGE_CASE = Pace(speed=1.5, start_seconds=6.0, start_extra=2.5, start_spacing=2.0)


def machine(name: str, pace: Pace, cpu: int = 8000, gpus: int = 8) -> Node:
    """A node of the simulator."""
    return replace(node(name, cpu=cpu, gpus=gpus, gpu_model="T4"), pace=pace)


def task(name: str, work: float, cpu: int, limit: int = 0, *, gpu: int = 0, arrival: float = 0.0) -> Pod:
    """A task with so much work; CPU request and limit in thousandths."""
    made = pod(name, cpu=cpu, gpu=(gpu, 1000) if gpu else (0, 0), arrival=arrival)
    return replace(made, duration=work, spec=replace(made.spec, cpu_limit=limit))


def finished(nodes: tuple[Node, ...], pods: tuple[Pod, ...]) -> list[float]:
    """When each task ends under first fit."""
    compiled = compile_workload(Workload("ticked", nodes, pods, ticked=True))
    outcome = simulate(compiled, make_policy("first_fit"))
    assert all(row[1] == "done" for row in outcome.log)
    return [row[5] for row in outcome.log]


def yield_of(cpu: float) -> float:
    """Work per second of a CPU task, section 3 of the rules."""
    for threshold, loss in ((2.8, 0.2), (2.6, 0.25), (0.8, 0.3), (0.64, 0.27), (0.45, 0.24)):
        if cpu > 3.2:
            return 3.0
        if cpu > threshold:
            return cpu - loss
    return 0.46 * cpu


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (4.0, 3.0),
        (3.2, 3.0),
        (3.0, 2.8),
        (2.8, 2.55),
        (2.7, 2.45),
        (2.6, 2.3),
        (1.0, 0.7),
        (0.8, 0.53),
        (0.7, 0.43),
        (0.64, 0.4),
        (0.5, 0.26),
        (0.45, 0.207),
        (0.1, 0.046),
    ],
)
def test_work_per_second_of_a_cpu_task(cpu: float, expected: float) -> None:
    """All comparisons are strict: a threshold itself belongs to the step below."""
    assert cpu_yield(cpu) == pytest.approx(expected)
    assert yield_of(cpu) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("limit", "speed", "count", "ends"),
    [
        # 4.125 * 1.5 per second: 44 s of work. Two tasks: 8.5 s of countdown from 1, launched at 10 and 12.
        (600, 1.5, 2, [53.0, 55.0]),
        # Above one core 7.5 * 1.5: 24 seconds. One task: 6 s of countdown, launched at 8.
        (1200, 1.5, 1, [31.0]),
        (2400, 1.5, 1, [31.0]),
        # 7.5 * 1.0: 36 seconds, launched at 10 and 12; alone at 8.
        (1200, 1.0, 2, [45.0, 47.0]),
        (1200, 1.0, 1, [43.0]),
        # Eight tasks: 6 + 7 * 2.5 = 23.5 s of countdown, launched at 26, 28, ... 40; 44 seconds of work.
        (600, 1.5, 8, [69.0, 71.0, 73.0, 75.0, 77.0, 79.0, 81.0, 83.0]),
    ],
)
def test_the_large_case_of_the_simulator(limit: int, speed: float, count: int, ends: list[float]) -> None:
    """Bound at second 1; the published times are these less 1."""
    host = machine("n0", replace(LARGE_CASE, speed=speed), cpu=32_000)
    tasks = tuple(task(f"t{i}", 270.0, limit // 2, limit, gpu=1, arrival=1.0) for i in range(count))
    assert finished((host,), tasks) == ends


def test_a_start_is_held_up_by_later_ones() -> None:
    """t0 bound at 0 counts 3; t1 bound at 2 holds it up by 2 (1 + 2 = 3) and itself counts max(3, 3)."""
    host = machine("n0", Pace(start_seconds=3.0, start_extra=2.0))
    tasks = (task("t0", 0.7, 1000), task("t1", 0.7, 1000, arrival=2.0))
    # At 5 both are ready: t0 launches and is done at once (0.7 work a second), t1 launches a second later.
    assert finished((host,), tasks) == [5.0, 6.0]


def test_without_spacing_one_container_starts_per_second() -> None:
    tasks = tuple(task(f"t{i}", 0.7, 1000) for i in range(3))
    assert finished((machine("n0", Pace(start_seconds=2.0)),), tasks) == [2.0, 3.0, 4.0]


def test_starts_happen_on_multiples_of_the_spacing() -> None:
    tasks = tuple(task(f"t{i}", 0.7, 1000, arrival=1.0) for i in range(3))
    assert finished((machine("n0", Pace(start_spacing=3.0)),), tasks) == [3.0, 6.0, 9.0]


def test_room_between_request_and_limit_is_shared() -> None:
    """4 cores, three tasks of 1..2 cores: each gets 1 + 1 / 3 * 1 = 4 / 3 while all run.

    They launch at 1, 2, 3. The first works with 2 cores at 1 (1.7), with 2 at 2 (1.7), then 4 / 3 (1.0333).
    """
    host = machine("n0", Pace(), cpu=4000)
    tasks = tuple(task(f"t{i}", 5.0, 1000, 2000) for i in range(3))
    # t0: 1.7, 3.4, 4.4333, 5.4667 -> 4. t1: 1.7 (at 2), 2.7333, 3.7667 (at 4), then two run: 5.4667 -> 5.
    # t2: 1.0333 (at 3), 2.0667 (at 4), 3.7667 (at 5), 5.4667 -> 6.
    assert finished((host,), tasks) == [4.0, 5.0, 6.0]


def test_a_crowded_node_slows_cpu_tasks_down_but_not_gpu_tasks() -> None:
    """All of the CPU asked for: minimum speed. At 3/4, threshold 1/2: half way between 2 and 1."""
    pace = Pace(speed=2.0, minimum_speed=1.0, slow_threshold=0.5)
    full = finished((machine("n0", pace, cpu=1000),), (task("t", 7.0, 1000),))
    assert full == [10.0]  # 0.7 a second
    half_way = finished((machine("n0", pace, cpu=4000),), (task("t", 10.0, 3000),))
    assert half_way == [3.0]  # 1.5 * 2.8 a second
    not_slowed = finished((machine("n0", pace, cpu=8000),), (task("t", 10.0, 3000),))
    assert not_slowed == [2.0]  # 2 * 2.8 a second
    gpu = finished((machine("n0", pace, cpu=2000),), (task("t", 30.0, 2000, gpu=1),))
    assert gpu == [2.0]  # 7.5 * 2 a second


def test_what_a_task_leaves_behind_is_used_in_the_same_second() -> None:
    tasks = (task("t0", 1.4, 1000), task("t1", 1.4, 1000))
    # t0 launches at 1 and ends at 2; t1 is bound at 2, launches at 3, ends at 4.
    assert finished((machine("n0", Pace(), cpu=1000),), tasks) == [2.0, 4.0]


@dataclass
class Ticking:
    """A task in the obvious loop."""

    pod: Pod
    host: int
    rank: int
    countdown: float
    remaining: float | None = None


@dataclass
class ObviousLoop:
    """Seconds 0, 1, 2, ...: submit, count down, launch, work, end, place by first fit."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    bound: list[Ticking] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)

    def run(self) -> list[float]:
        """When each task ends."""
        waiting: list[Pod] = []
        second = 0
        while len(self.ends) < len(self.pods):
            waiting += [each for each in self.pods if each.arrival == second]
            for n, host in enumerate(self.nodes):
                self._tick(host, [each for each in self.bound if each.host == n], second)
            waiting = [each for each in waiting if not self._place(each)]
            second += 1
        return [self.ends[each.name] for each in self.pods]

    def _tick(self, host: Node, here: list[Ticking], second: int) -> None:
        binding = [each for each in here if each.remaining is None]
        for each in binding:
            each.countdown -= 1
        ready = [each for each in binding if each.countdown <= 0]
        if ready and (host.pace.start_spacing == 0 or second % host.pace.start_spacing == 0):
            first = min(ready, key=lambda each: (each.pod.arrival, each.rank))
            first.remaining = first.pod.duration
        working = [each for each in here if each.remaining is not None]
        requests = sum(each.pod.spec.requests.cpu for each in working) / 1000
        limits = sum(cores(each.pod)[1] for each in working)
        for each in working:
            assert each.remaining is not None
            each.remaining -= work(each.pod, host, requests, limits)
            if each.remaining <= 0:
                self.bound.remove(each)
                self.ends[each.pod.name] = float(second)

    def _place(self, made: Pod) -> bool:
        for n, host in enumerate(self.nodes):
            here = [each for each in self.bound if each.host == n]
            cpu = sum(each.pod.spec.requests.cpu for each in here) + made.spec.requests.cpu
            gpus = sum(each.pod.spec.gpu.count for each in here) + made.spec.gpu.count
            if cpu <= host.allocatable.cpu and gpus <= host.gpu_count:
                binding = [each for each in here if each.remaining is None]
                for each in binding:
                    each.countdown += host.pace.start_extra
                countdown = max([host.pace.start_seconds, *(each.countdown for each in binding)])
                rank = 1 + max((each.rank for each in self.bound), default=0)
                self.bound.append(Ticking(made, n, rank, countdown))
                return True
        return False


def cores(made: Pod) -> tuple[float, float]:
    """Request and limit; a limit below the request (or none) is the request."""
    request = made.spec.requests.cpu
    return request / 1000, max(made.spec.cpu_limit, request) / 1000


def work(made: Pod, host: Node, requests: float, limits: float) -> float:
    """Work done in one second, section 3 of the rules."""
    capacity = host.allocatable.cpu / 1000
    request, limit = cores(made)
    cpu = limit
    if limits > requests:
        cpu = min(request + (limit - request) / (limits - requests) * (capacity - requests), limit)
    pace = host.pace
    if made.spec.gpu.count:
        return 7.5 * pace.speed * (1 if cpu > 1 else cpu - 0.05)
    speed, share = pace.speed, requests / capacity
    if pace.minimum_speed > 0 and pace.slow_threshold > 0:
        if share > 0.99:
            speed = pace.minimum_speed
        elif share > pace.slow_threshold and speed > pace.minimum_speed:
            excess = (share - pace.slow_threshold) / (1 - pace.slow_threshold)
            speed -= excess * (speed - pace.minimum_speed)
    return speed * yield_of(cpu)


# Dyadic amounts, so that the order of summing does not matter.
paces = st.builds(
    Pace,
    speed=st.sampled_from((1.0, 1.5, 0.5)),
    start_seconds=st.sampled_from((0.0, 2.0, 6.0)),
    start_extra=st.sampled_from((0.0, 0.5, 2.5)),
    start_spacing=st.sampled_from((0.0, 1.0, 2.0, 3.0)),
    minimum_speed=st.sampled_from((0.0, 0.25, 1.25)),
    slow_threshold=st.sampled_from((0.0, 0.5, 0.75)),
)
hosts = st.lists(
    st.tuples(paces, st.sampled_from((2000, 4000, 8000)), st.sampled_from((0, 2))), min_size=1, max_size=3
)
tasks_drawn = st.lists(
    st.tuples(
        st.sampled_from((1.0, 20.0, 64.5)),
        st.sampled_from((250, 500, 1000, 2000)),
        st.sampled_from((0, 1, 3)),
        st.sampled_from((0, 0, 1)),
        st.sampled_from((0, 0, 1, 7)),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=60)
@given(hosts=hosts, drawn=tasks_drawn)
def test_the_kernel_is_the_obvious_loop(
    hosts: list[tuple[Pace, int, int]], drawn: list[tuple[float, int, int, int, int]]
) -> None:
    nodes = tuple(machine(f"n{i}", pace, cpu, gpus) for i, (pace, cpu, gpus) in enumerate(hosts))
    if not any(gpus for _, _, gpus in hosts):
        drawn = [(*each[:3], 0, each[4]) for each in drawn]
    now = 0
    tasks = []
    for i, (amount, cpu, factor, gpu, gap) in enumerate(drawn):
        now += gap
        tasks.append(task(f"t{i}", amount, cpu, cpu * factor, gpu=gpu, arrival=float(now)))
    assert finished(nodes, tuple(tasks)) == ObviousLoop(nodes, tuple(tasks)).run()


def test_arrivals_between_seconds_do_not_make_time_run_faster() -> None:
    """A tick is a second: what comes at a fraction of one is not a tick of its own."""
    host = machine("n0", Pace(start_seconds=4.0))
    alone = finished((host,), (task("t", 7.0, 1000),))
    others = tuple(task(f"late{i}", 0.7, 1000, arrival=0.25 + i / 2) for i in range(4))
    beside = finished((host,), (task("t", 7.0, 1000), *others))
    assert alone == [13.0]
    assert beside[0] == alone[0]


def test_the_bind_second_is_the_logged_start() -> None:
    compiled = compile_workload(
        Workload(
            "ticked", (machine("n0", LARGE_CASE),), (task("t", 270.0, 600, gpu=1, arrival=3.0),), ticked=True
        )
    )
    row = simulate(compiled, make_policy("first_fit")).log[0]
    assert row[3] == row[4] == 3.0
    # Launched at the first multiple of 2 from 3 + 6 on; 7.5 * 0.55 * 1.5 a second.
    assert row[5] == 10.0 + math.ceil(270.0 / (7.5 * 0.55 * 1.5)) - 1
