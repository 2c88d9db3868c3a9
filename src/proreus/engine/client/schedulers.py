"""The four schedulers of document 002 by their class names: Kubernetes objects in, the name of a node out.

`proreus up --scheduler NAME` runs the same policies; these are for programs that want one answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from proreus.engine.scheduler.messages import refusals_of, unavailable
from proreus.engine.scheduler.pod_templates import TemplateReader
from proreus.model.decision import Place
from proreus.model.pod import Pod
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.state.described_cluster import NodeNow, Running, observe

Object = Mapping[str, Any]


class NoNodeFits(Exception):
    """No node may take the pod; the message says why, in kube-scheduler's words."""


class Scheduler:
    """A policy by its name; see the classes below."""

    policy: ClassVar[str] = "kube"

    def __init__(self, seed: int = 0) -> None:
        self._decide_by(self.policy, seed)

    def _decide_by(self, policy: str, seed: int) -> None:
        self._policy = make_policy(policy, seed=seed)
        self._reader = TemplateReader()

    def choose(self, pod: Object, nodes: Sequence[Object], pods: Sequence[Object] = ()) -> str:
        """The node for the pod; pods: what runs on the nodes now (spec.nodeName). Raises `NoNodeFits`."""
        running: dict[str, list[Running]] = {}
        for other in pods:
            name = str(other["spec"].get("nodeName") or "")
            running.setdefault(name, []).append(Running(self._read(other)))
        described = [
            NodeNow(self._reader.node(node), tuple(running.get(str(node["metadata"]["name"]), ())))
            for node in map(dict, nodes)
        ]
        observation = observe(described, self._read(pod))
        decision = self._policy.decide(observation)
        if not isinstance(decision, Place):
            raise NoNodeFits(unavailable(refusals_of(observation)))
        return str(nodes[decision.node]["metadata"]["name"])

    def _read(self, pod: Object) -> Pod:
        stated = {"namespace": "default", **pod["metadata"]}
        return Pod(str(stated["name"]), self._reader.pod({**pod, "metadata": stated}).spec)


class RandomScheduler(Scheduler):
    """A legal node at random."""

    policy = "random"


class KubeScheduler(Scheduler):
    """kube-scheduler's filters and scores."""

    policy = "kube"


class KubeSchedulerPlus(Scheduler):
    """The same, aware of GPUs, network, disk, extended resources and measured load."""

    policy = "kube_plus"


class DDQNScheduler(Scheduler):
    """A double DQN: the one that ships, or a run or checkpoint of `proreus train pods --algo ddqn`."""

    policy = "ddqn"

    def __init__(self, model: str | Path = policy, seed: int = 0) -> None:
        self._decide_by(str(model), seed)
