"""The engine binds every pod of the recorded clusters where the real kube-scheduler did, or says the same.

Registry and SchedulingAgent over a store in memory, pod by pod: each is created as a user would, and the test
plays the node's part for victims. Only what falls by lot in the real scheduler is steered to the recorded
lot, where the engine's own rules find that as good: ties of 1.34, ties of pods that name several nodes, and
where the search for victims starts.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import BY_KIND, NAMESPACE, POD, PRIORITY_CLASS
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler.agent import AgentOptions, SchedulingAgent
from proreus.engine.scheduler.core import SchedulingOptions
from proreus.engine.store.memory import MemoryStore
from proreus.model.decision import Decision, Place, Preempt
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.policies.rules.preempt import best_candidate
from proreus.worlds.pods.state.filters import CURABLE
from proreus.worlds.pods.state.observation import PodObservation
from tests.real_data import real_data

FOLDER = "kube_recorded"
RECORDINGS = ("1.34", "1.35", "1.36", "edge-1.34", "edge-1.35", "edge-1.36")
ABSENT = frozenset({"volumes-0000", "labelnumbers-0000"})
"""Recordings about volume claims, which the engine does not keep, and of labels that no API server takes."""
DEVICE_CLAIMS = "no new claims to deallocate, "
"""What the real scheduler adds of a plugin that the engine has not."""
PATIENCE = 60.0
Line = Mapping[str, Any]
Object = dict[str, Any]


class Stage:
    """What the lots were, for the pod that is on."""

    version = "1.36"
    line: ClassVar[Line] = {}


class RecordedLots:
    """`kube`, whose lots fall as they did in the recording."""

    def __init__(self) -> None:
        policy = make_policy("kube", PolicyOptions(kube_version=Stage.version))  # type: ignore[arg-type]
        assert isinstance(policy, RulePolicy)
        self.kube = policy

    def decide(self, observation: PodObservation) -> Decision:
        """kube's own decision, or the recorded one where that is as good."""
        names = [node.name for node in observation.compiled.workload.nodes]
        nodes, totals = self.kube.bids(observation)
        decision = self.kube.decide(observation)
        match decision:
            case Place(node=n) if names[n] != Stage.line.get("node") and self._by_lot(observation):
                tied = {names[k]: k for k in nodes[totals == totals.max()].tolist()}
                recorded = tied.get(Stage.line.get("node", ""))
                return decision if recorded is None else Place(recorded)
            case Preempt(node=n) if names[n] != Stage.line.get("nominated"):
                recorded = names.index(Stage.line["nominated"]) if "nominated" in Stage.line else -1
                return Preempt(recorded) if recorded in self._best(observation) else decision
            case _:
                return decision

    def _by_lot(self, observation: PodObservation) -> bool:
        shapes, shape = observation.cluster.shapes, observation.cluster.classes.shape[observation.pod_class]
        several = shapes.narrowed[shape] and shapes.named_start[shape + 1] - shapes.named_start[shape] > 1
        return Stage.version == "1.34" or bool(several)

    def _best(self, observation: PodObservation) -> Iterator[int]:
        """The best candidate for every place that the search for victims may start at."""
        rule = self.kube.rule_for(observation.compiled, observation.state)
        codes = observation.refusals()
        order = observation.cluster.nodes.visit_order
        potential = order[np.array(CURABLE)[codes[order]]]
        for offset in range(len(potential)):
            observation.scratch.nodes[: len(potential)] = potential
            search = (observation.pod_class, len(potential), offset)
            yield int(
                best_candidate(observation.cluster, observation.state, observation.scratch, rule, search)
            )


class Clock:
    """Far enough from pod to pod for every back-off to be over."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Recorded:
    """One recording, played through the engine."""

    def __init__(self, inputs: Path) -> None:
        self.objects: list[Object] = json.loads(_content(inputs))["items"]
        decided = inputs.with_name(inputs.name.replace(".json", ".real.jsonl"))
        self.lines = [json.loads(line) for line in _content(decided).splitlines()][1:]
        self.clock = Clock()
        self.registry = Registry(MemoryStore(), self.clock)
        self.differences: list[str] = []

    async def play(self) -> list[str]:
        """Every difference."""
        chosen = Chosen(f"{__name__}:RecordedLots", deadline_ms=10_000.0)
        await self.registry.prepare()
        pods = await self._set_up()
        options = AgentOptions(SchedulingOptions(chosen, apart=False), events=False)
        agent = SchedulingAgent(self.registry, options, self.clock, self.clock)
        async with _running(agent):
            for obj in self.objects:
                if obj["kind"] == "Node":
                    await self.registry.create(BY_KIND["v1", "Node"], obj)
            for line in self.lines:
                self.clock.now += 1000.0
                Stage.line = line
                for gone in line.get("removed", ()):
                    await self._delete(gone)
                await self._decide(line, pods[line["pod"]])
        return self.differences

    async def _set_up(self) -> dict[str, Object]:
        """Everything but nodes and pods; the pods by name, with a priority class each as the API wants it."""
        pods: dict[str, Object] = {}
        spaces = set()
        for obj in self.objects:
            spaces.add(obj["metadata"].get("namespace", "default"))
            if obj["kind"] == "Namespace":
                spaces.add(obj["metadata"]["name"])
        labels = {
            obj["metadata"]["name"]: obj["metadata"].get("labels", {})
            for obj in self.objects
            if obj["kind"] == "Namespace"
        }
        for name in sorted(spaces - {"default", "kube-system"}):
            metadata = {"name": name, "labels": labels.get(name, {})}
            await self.registry.create(
                NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            )
        for obj in sorted(self.objects, key=lambda obj: obj["kind"] != "PriorityClass"):
            namespace = obj["metadata"].get("namespace", "default")
            placed = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
            match obj["kind"]:
                case "Pod":
                    pods[f"{namespace}/{obj['metadata']['name']}"] = placed
                case "Node" | "Namespace":
                    pass
                case "PriorityClass":
                    await self.registry.create(PRIORITY_CLASS, obj)
                case kind:
                    known_kind = BY_KIND.get((obj["apiVersion"], kind))
                    if kind == "Service":
                        placed["spec"] = {"ports": [{"port": 80}], **obj["spec"]}
                    if known_kind is not None:
                        made = await self.registry.create(known_kind, placed)
                        pods |= _replicas(made) if kind == "ReplicaSet" else {}
        priorities = {
            pod["spec"]["priority"]
            for pod in pods.values()
            if "priority" in pod["spec"] and "priorityClassName" not in pod["spec"]
        }
        for value in sorted(priorities):
            about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
            await self.registry.create(PRIORITY_CLASS, {**about, "metadata": {"name": _class_of(value)}})
        return pods

    async def _decide(self, line: Line, pod: Object) -> None:
        if "bound" in line:
            await self.registry.create(
                POD, _acceptable({**pod, "spec": {**pod["spec"], "nodeName": line["bound"]}})
            )
            return
        await self.registry.create(POD, _acceptable(pod))
        decided = await self._decided(line["pod"])
        nominated = decided.get("status", {}).get("nominatedNodeName")
        if nominated != line.get("nominated"):
            self._differs(line, "nominated", line.get("nominated"), nominated)
        if nominated:
            self._compare_words(line, decided)
            await self._evict(line)
            self.clock.now += 100.0
            decided = await self._decided(line["pod"], bound=True)
        node = decided["spec"].get("nodeName")
        wanted = line.get("node") or line.get("retry")
        if node != wanted:
            self._differs(line, "node", wanted, node)
        if node is None:
            self._compare_words(line, decided)
            await self._delete(line["pod"])

    def _compare_words(self, line: Line, pod: Object) -> None:
        """What is said of a pod that has to wait, or to wait for those that it evicts."""
        ours = pod["status"]["conditions"][-1]["message"]
        real = line["error"].replace(DEVICE_CLAIMS, "")
        if "preemption:" not in real:  # the older recordings end before it
            ours = ours.partition(" preemption:")[0]
        if ours != real:
            self._differs(line, "message", real, ours)

    async def _evict(self, line: Line) -> None:
        """Let go of the victims, as their node would."""
        leaving = [
            f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
            for obj in (await self.registry.list(POD)).items
            if "deletionTimestamp" in obj["metadata"]
        ]
        if sorted(leaving) != sorted(line["victims"]):
            self._differs(line, "victims", line["victims"], leaving)
        for name in leaving:
            await self._delete(name)

    async def _decided(self, key: str, *, bound: bool = False) -> Object:
        """The pod once the agent has said something about it."""
        namespace, name = key.split("/")
        async with asyncio.timeout(PATIENCE):
            while True:
                pod = await self.registry.get(POD, namespace, name)
                said = pod["spec"].get("nodeName") or (not bound and pod["status"].get("conditions"))
                if said:
                    return pod
                await asyncio.sleep(0)

    async def _delete(self, key: str) -> None:
        namespace, name = key.split("/")
        try:
            await self.registry.delete(POD, namespace, name, grace=0)
        except NotFound:
            self.differences.append(f"{key} is not there to be deleted")

    def _differs(self, line: Line, what: str, real: object, ours: object) -> None:
        self.differences.append(f"{line['pod']}: {what}: {real!r}, ours {ours!r}")


def _class_of(priority: int) -> str:
    return f"p{priority}".replace("-", "minus")


def _acceptable(pod: Object) -> Object:
    """As an API server takes it: priorities by their class, and no limit below its request."""
    spec = dict(pod["spec"])
    if "priority" in spec and "priorityClassName" not in spec:
        spec["priorityClassName"] = _class_of(spec["priority"])
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = [_container(container) for container in spec[part]]
    return {**pod, "spec": spec}


def _container(container: Object) -> Object:
    resources = container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    # Of CPU and memory; a request that is stated is what counts, whatever the limit.
    kept = {
        name: limit for name, limit in limits.items() if name not in ("cpu", "memory") or name not in requests
    }
    return {**container, "resources": {**resources, "limits": kept}} if limits else container


def _replicas(owner: Object) -> dict[str, Object]:
    """The pods of a ReplicaSet, by name."""
    metadata, template = owner["metadata"], owner["spec"]["template"]
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    reference |= {"name": metadata["name"], "uid": metadata["uid"]}
    replicas = {}
    for index in range(owner["spec"]["replicas"]):
        name = f"{metadata['name']}-{index}"
        about = {
            **template["metadata"],
            "name": name,
            "namespace": metadata["namespace"],
            "ownerReferences": [reference],
        }
        replicas[f"{metadata['namespace']}/{name}"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": about,
            "spec": template["spec"],
        }
    return replicas


@asynccontextmanager
async def _running(agent: SchedulingAgent) -> Any:
    task = asyncio.create_task(agent.run())
    try:
        yield
    finally:
        if task.done():
            task.result()
        task.cancel()
        await asyncio.wait([task])


def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@pytest.mark.golden
@pytest.mark.parametrize("recordings", RECORDINGS)
def test_every_pod_is_bound_where_the_real_scheduler_bound_it(recordings: str) -> None:
    folder = real_data(FOLDER) / FOLDER / recordings
    Stage.version = recordings.removeprefix("edge-")
    inputs = [
        path
        for path in sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")])
        if path.name.split(".")[0] not in ABSENT
    ]
    assert inputs, f"{folder} holds no recording"
    differences = [
        f"{path.name}: {difference}" for path in inputs for difference in asyncio.run(Recorded(path).play())
    ]
    assert not differences, "\n".join([f"{len(differences)} differences:", *differences[:20]])
