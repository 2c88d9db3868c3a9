"""Whatever happens in whatever order: the picture is that of what is there, and no node is overfilled."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from proreus.engine.scheduler.core import SchedulingCore
from proreus.engine.scheduler.instructions import (
    BindPodTo,
    InstructionFailed,
    ObjectDeleted,
    ObjectUpdated,
    PreemptFor,
)
from tests.engine.scheduler.objects import Object, node, on, pod

STAMP = "2026-01-01T00:00:00Z"


class Life:
    """A cluster that the core only hears of, late and with failures."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.core = SchedulingCore()
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.now, self.born = 0.0, 0

    def step(self) -> None:
        """Something happens, and the core decides."""
        self.now += self.rng.choice([0.0, 0.3, 2.0, 30.0])
        happening = self.rng.choices(
            [
                self.node_comes,
                self.node_changes,
                self.node_goes,
                self.pod_comes,
                self.pod_goes,
                self.pod_leaves,
            ],
            [4, 2, 1, 30, 8, 3],
        )[0]
        happening()
        for one in self.core.cycle(self.now, self.rng.randint(0, 4)):
            self.carry_out(one)

    def carry_out(self, instruction: Any) -> None:
        match instruction:
            case BindPodTo(pod=ref, node=where):
                obj = self.pods.get(ref.key)
                if obj is None or where not in self.nodes or self.rng.random() < 0.1:
                    self.core.handle(InstructionFailed(ref, "lost"), self.now)
                else:
                    self.pods[ref.key] = on(obj, where)
                    self.check_room(where)
                    if self.rng.random() < 0.8:  # else the watch is behind
                        self.tell(self.pods[ref.key])
            case PreemptFor(victims=victims):
                for ref in victims:
                    if ref.key in self.pods:
                        self.end(ref.key)
            case _:
                pass

    def check_room(self, name: str) -> None:
        """The node was not overfilled, as the store has it."""
        size = int(self.nodes[name]["status"]["allocatable"]["cpu"]) * 1000
        used = sum(_cpu(one) for one in self.pods.values() if one["spec"].get("nodeName") == name)
        assert used <= max(size, self.before_shrinking(name)), name

    def before_shrinking(self, name: str) -> int:
        return 1000 * int(self.nodes[name]["metadata"]["annotations"]["largest"])

    def tell(self, obj: Object) -> None:
        self.core.handle(ObjectUpdated(obj["kind"], obj), self.now)

    def node_comes(self) -> None:
        name = f"n{self.rng.randint(0, 5)}"
        if name not in self.nodes:
            cpu = self.rng.randint(1, 8)
            self.nodes[name] = node(name, str(cpu), labels={"zone": self.rng.choice("ab")})
            self.nodes[name]["metadata"]["annotations"] = {"largest": str(cpu)}
            self.tell(self.nodes[name])

    def node_changes(self) -> None:
        if self.nodes:
            name = self.rng.choice(sorted(self.nodes))
            before = self.nodes[name]
            cpu = self.rng.randint(1, 8)
            self.nodes[name] = node(name, str(cpu), unschedulable=self.rng.random() < 0.3)
            largest = max(cpu, int(before["metadata"]["annotations"]["largest"]))
            self.nodes[name]["metadata"]["annotations"] = {"largest": str(largest)}
            self.tell(self.nodes[name])

    def node_goes(self) -> None:
        if self.nodes:
            name = self.rng.choice(sorted(self.nodes))
            self.core.handle(ObjectDeleted("Node", self.nodes.pop(name)), self.now)

    def pod_comes(self) -> None:
        self.born += 1
        spec: dict[str, Any] = {
            "priority": self.rng.choice([0, 0, 10]),
            "labels": {"app": self.rng.choice("ab")},
        }
        if self.rng.random() < 0.2:
            term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {"podAntiAffinity": required}
        obj = pod(f"p{self.born}", f"{self.rng.randint(1, 20) * 100}m", **spec)
        self.pods[f"default/p{self.born}"] = obj
        self.tell(obj)

    def pod_goes(self) -> None:
        if self.pods:
            self.end(self.rng.choice(sorted(self.pods)))

    def pod_leaves(self) -> None:
        """It is on its way out, but still there."""
        running = [key for key, one in self.pods.items() if one["spec"].get("nodeName")]
        if running:
            key = self.rng.choice(running)
            obj = self.pods[key]
            self.pods[key] = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": STAMP}}
            self.tell(self.pods[key])

    def end(self, key: str) -> None:
        self.core.handle(ObjectDeleted("Pod", self.pods.pop(key)), self.now)

    def check(self) -> None:
        """The picture, once all is told, is that of what is there; and rebuilt it is the same."""
        for obj in self.pods.values():
            self.tell(obj)
        picture = self.core.picture
        for name in self.nodes:
            there = {key for key, one in self.pods.items() if one["spec"].get("nodeName") == name}
            assert set(picture.cluster.pods_on(name)) == there
        assert set(picture.pods) == set(self.pods)
        waiting = {key for key, one in self.pods.items() if not one["spec"].get("nodeName")}
        assert {key for key in waiting if key in self.core.queue} == waiting
        _, before = picture.cluster.columns()
        free = {name: before.free[picture.cluster.node_at(name)].copy() for name in self.nodes}
        self.core.start_over(self.now)
        _, after = picture.cluster.columns()
        for name, was in free.items():
            assert np.array_equal(was, after.free[picture.cluster.node_at(name)])


def _cpu(obj: Object) -> int:
    return int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


@pytest.mark.parametrize("seed", range(12))
def test_the_picture_is_that_of_what_is_there(seed: int) -> None:
    life = Life(seed)
    for _ in range(4):
        for _ in range(60):
            life.step()
        life.check()
    assert life.core.counts["bound"] > 20
