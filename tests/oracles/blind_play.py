"""How well the k8s simulator's large test can be played by who sees its vector alone: a bound.

Of the nodes, in an order that nobody knows, a quarter each have no GPU, 2, 4 and 8; those with 4 are slow.
350 tasks come in one second: 200 that ask for one GPU, 100 for two, 50 for four. A task takes longer on a
slow node, and tasks that start together on one node hold each other up. All that an answer can do is

- name a node that nothing is known of: it takes the task, or refuses it for want of GPUs;
- name a node that took a task: the two hold each other up, and it is as likely slow as any that took one;
- name a node that refuses, or none: the plugin then takes the node that has most to spare, which is always a
  quick one with 8 GPUs, and one and the same until its GPUs are taken: a pile.

What can be learned on the way is who took and who refused; nothing ends before all is placed, so that speed
never shows. (Where a pile is begun tells that no node before it is of that best kind: they are no better for
that than the unknown ones behind it.) What else could be named is no better than these:

- for a third task a node that took two: 12 more, a third of them refuse, half of the others are slow;
- for a second task that asks for two GPUs: a third refuse, and half of the others are slow;
- for one that asks for four, a node that has tasks: a third take it, or half where more is known and more run
  there, while the pile costs 6 at most.

The best play is then a small dynamic program. It is an underestimate in one thing: the pile is always begun
on a node that nobody has named.

`told` gives more than there is: the kind of a node as soon as it took a task, and quick nodes without end for
the second task on a node where it asks for more than one GPU, and for any third one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.model.node import Node, Pace
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod, PodSpec
from proreus.model.resources import GIB, MIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.k8ssim import WORK_PER_EPOCH

QUICK, SLOW = 1.5, 1.0
CORES = (8, 16, 32)
SPEED_OF_GPUS = {0: SLOW, 2: QUICK, 4: SLOW, 8: QUICK}
MOST_GPUS = 8
SECOND, THIRD = 6.0, 12.0
"""What one more task on a node with one, or with two, adds to the times of all on it."""


@dataclass(frozen=True)
class Job:
    """Equal tasks."""

    tasks: int
    gpus: int
    cpu: int
    """Milli-CPU that a task asks for; it may use a fifth more."""
    memory: int
    seconds: float
    """That a task takes alone on a quick node."""
    slower: float
    """More of them on a slow one."""

    @property
    def refusing(self) -> float:
        """The share of the nodes that have too few GPUs."""
        return sum(gpus < self.gpus for gpus in SPEED_OF_GPUS) / len(SPEED_OF_GPUS)

    @property
    def taken_slow(self) -> float:
        """The share of the slow ones among those that take it."""
        took = [speed for gpus, speed in SPEED_OF_GPUS.items() if gpus >= self.gpus]
        return took.count(SLOW) / len(took)


JOBS = (
    Job(200, 1, 500, 1000 * MIB, 50.0, 22.0),
    Job(100, 2, 1000, 2000 * MIB, 30.0, 12.0),
    Job(50, 4, 2000, 3500 * MIB, 30.0, 12.0),
)
TASKS = sum(job.tasks for job in JOBS)


def held_up(count: int) -> float:
    """Seconds that so many tasks, placed at once on one node, take in all beyond what they take alone."""
    if count == 0:
        return 0.0
    countdown = 6.0 + 2.5 * (count - 1)
    first = 2 * math.ceil((1.0 + countdown) / 2)
    return float(sum(first + 2 * k - 8 for k in range(count)))


class Pile(NamedTuple):
    """The node that the plugin takes where the answer names none that is allowed."""

    tasks: int
    gpus: int

    def with_one_more(self, gpus: int) -> tuple[float, Pile]:
        """(what that costs, the pile after it): another node where this one has too few GPUs left."""
        begun = self if self.gpus + gpus <= MOST_GPUS else Pile(0, 0)
        cost = held_up(begun.tasks + 1) - held_up(begun.tasks)
        return cost, Pile(begun.tasks + 1, begun.gpus + gpus)


PILES = tuple(Pile(t, g) for g in range(MOST_GPUS + 1) for t in range(g + 1) if g <= 4 * t)
Ahead = dict[Pile, F64]
"""What the tasks that are still to come cost at least, by the pile and by how many nodes have one task."""
Answer = Literal["unknown", "second", "pile"]


class BestPlay:
    """The dynamic program, from the last task to the first."""

    def __init__(self, *, told: bool = False) -> None:
        self._told = told
        most = JOBS[0].tasks + 1
        ahead: Ahead = {pile: np.zeros(most + 1) for pile in PILES}
        self._ahead: list[Ahead] = [ahead]
        """By how many tasks are still to come."""
        for number, job in reversed(list(enumerate(JOBS))):
            for _ in range(job.tasks):
                last = self._ahead[-1]
                self._ahead.append({pile: self._least(number, pile, last) for pile in PILES})

    @property
    def mean_seconds(self) -> float:
        """Of the tasks, expected, from an empty cluster on."""
        alone = sum(job.tasks * job.seconds for job in JOBS)
        return (alone + float(self._ahead[TASKS][Pile(0, 0)][0])) / TASKS

    def answer(self, left: int, pile: Pile, ones: int) -> Answer:
        """The best one where so many tasks are left, this one among them, and so many nodes have one."""
        costs = self._costs(_job_at(TASKS - left), pile, self._ahead[left - 1])
        return min(costs, key=lambda answer: float(costs[answer][ones]))

    def _least(self, number: int, pile: Pile, after: Ahead) -> F64:
        least: F64 = np.min(list(self._costs(number, pile, after).values()), axis=0)
        if self._told:
            free = THIRD if number == 0 else SECOND
            least = np.minimum(least, free + after[pile])
        return least

    def _costs(self, number: int, pile: Pile, after: Ahead) -> dict[Answer, F64]:
        """float64[nodes with one task] for each answer."""
        job = JOBS[number]
        more, then = pile.with_one_more(job.gpus)
        piled = more + after[then]
        same = after[pile]
        one_more, one_fewer = same[_shifted(same, 1)], same[_shifted(same, -1)]
        slow = job.taken_slow * job.slower
        if self._told:  # slow ones are left alone
            took = (1.0 - job.taken_slow) * one_more + job.taken_slow * (job.slower + same)
            second = SECOND + one_fewer
        else:
            took = slow + one_more
            second = SECOND + slow + one_fewer
        costs: dict[Answer, F64] = {
            "unknown": (1.0 - job.refusing) * took + job.refusing * piled,
            "pile": piled,
        }
        if number == 0:
            second[0] = math.inf
            costs["second"] = second
        return costs


def _job_at(task: int) -> int:
    """The number of the job that this task belongs to."""
    ends = np.cumsum([job.tasks for job in JOBS])
    return int(np.searchsorted(ends, task, side="right"))


def _shifted(values: F64, by: int) -> I64:
    """Indices of the neighbours, which stay within."""
    return np.clip(np.arange(len(values)) + by, 0, len(values) - 1)


class BlindPlayer:
    """Answers the plugin by the best play; for one run, and one question for each task."""

    def __init__(self, play: BestPlay, nodes: int, seed: int) -> None:
        self._play, self._nodes = play, nodes
        self._unknown = np.random.default_rng(seed).permutation(nodes).tolist()
        self._ones: list[int] = []
        self._pile, self._pile_node = Pile(0, 0), -1
        self._left = TASKS
        self._before = np.zeros(nodes)
        self._named = -1

    def __call__(self, state: F64) -> int:
        """An action for this state: float64[2n + 2]."""
        cpu = state[0 : 2 * self._nodes : 2]
        if self._left < TASKS:
            self._notice(int(np.argmax(cpu - self._before)))
        self._before = cpu.copy()
        self._unknown = [node for node in self._unknown if cpu[node] == 0.0]
        match self._play.answer(self._left, self._pile, len(self._ones)) if self._unknown else "pile":
            case "unknown":
                self._named = self._unknown.pop()
            case "second":
                self._named = self._ones.pop()
            case "pile":
                self._named = -1
        self._left -= 1
        return self._named if self._named >= 0 else 2 * self._nodes

    def _notice(self, where: int) -> None:
        """Where the task before this one went."""
        number = _job_at(TASKS - self._left - 1)
        if where == self._named:
            if number == 0 and self._before[where] == 0.0:
                self._ones.append(where)
            return
        pile = self._pile if where == self._pile_node else Pile(0, 0)
        self._pile = pile.with_one_more(JOBS[number].gpus)[1]
        self._pile_node = where


def node_of(kind: int, name: str = "node") -> Node:
    """A node of one of the twelve kinds."""
    cores, gpus = CORES[kind % 3], tuple(SPEED_OF_GPUS)[kind // 3]
    room = Resources(cores * 1000, 2 * cores * GIB, pods=110)
    return Node(name, room, gpu_count=gpus, pace=Pace(SPEED_OF_GPUS[gpus], 6.0, 2.5, 2.0))


def pod_of(job: Job, name: str) -> Pod:
    """A task that comes at the first second."""
    gpu = GpuRequest(job.gpus, GPU_WHOLE)
    spec = PodSpec(Resources(job.cpu, job.memory), gpu=gpu, cpu_limit=job.cpu * 6 // 5)
    return Pod(name, spec, 1.0, 2 * WORK_PER_EPOCH)


def drawn_cluster(nodes: int, seed: int) -> Workload:
    """The test's tasks on nodes whose kinds are drawn."""
    kinds = np.random.default_rng(seed).integers(0, 12, nodes).tolist()
    machines = tuple(node_of(kind, f"n{n}") for n, kind in enumerate(kinds))
    pods = tuple(pod_of(job, f"{job.gpus}-{k}") for job in JOBS for k in range(job.tasks))
    return Workload(f"blind-{seed}", machines, pods, ticked=True)
