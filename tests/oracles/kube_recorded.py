"""Recordings of the real kube-scheduler, replayed pod by pod.

Before each pod the cluster holds the real placements so far, so every line of a recording is a test of its
own. The format is told in the SOURCE.txt of the recordings.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proreus.kernels.structs import private
from proreus.kube.manifests import read_manifests
from proreus.model.workload import Workload
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.policies.rules.choose import find_feasible, kube_node
from proreus.worlds.pods.policies.rules.columns import PLUGINS
from proreus.worlds.pods.policies.rules.kube_scores import score_nodes
from proreus.worlds.pods.policies.rules.memory import new_memory
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.policies.rules.preempt import best_candidate
from proreus.worlds.pods.state.compile import compile_workload, empty_state, new_scratch
from proreus.worlds.pods.state.devices import devices_fit, tightest_devices
from proreus.worlds.pods.state.filters import FILTERS
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.placement import place, remove

Line = Mapping[str, Any]
NOWHERE = -1
# Plugins of the real scheduler that have nothing to say in the recordings, and ours that it does not have.
SILENT = frozenset({"DynamicResources"})
OUR_OWN = frozenset({"GpuFragmentation", "NetworkAndDisk", "TargetLoadPacking", "LoadVariationRiskBalancing"})


@dataclass(frozen=True)
class Difference:
    """Where our scheduler and the real one part."""

    pod: str
    kind: str
    real: object
    ours: object


def read_recording(inputs: Path, scratch: Path) -> tuple[Workload, list[Line]]:
    """The cluster with its pods, and what was decided about them; NAME.json(.gz) names the recording."""
    name = inputs.name.removesuffix(".gz").removesuffix(".json")
    plain = scratch / f"{name}.json"
    plain.write_bytes(_content(inputs))
    decided = inputs.with_name(inputs.name.replace(".json", ".real.jsonl"))
    return read_manifests([plain]), [json.loads(line) for line in _content(decided).splitlines()]


def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


class Replay:
    """Our scheduler beside the recorded one."""

    def __init__(self, workload: Workload, lines: Sequence[Line], version: str) -> None:
        self.workload, self.lines = workload, lines
        self.compiled = compile_workload(workload)
        self.cluster = self.compiled.cluster
        self.state, self.scratch = empty_state(self.cluster), new_scratch(self.cluster)
        policy = make_policy("kube", PolicyOptions(kube_version=version))  # type: ignore[arg-type]
        assert isinstance(policy, RulePolicy)
        rule = policy.rule_for(self.compiled, self.state)
        # Recordings hardly repeat a pod; what is remembered is to be held against them all the same.
        self.rule = private(rule, memory=new_memory(self.cluster, 1 << 30))
        self.by_lot = version == "1.34"
        self.nodes = {node.name: n for n, node in enumerate(workload.nodes)}
        self.pods = {_full_name(pod.spec.namespace, pod.name): p for p, pod in enumerate(workload.pods)}

    def run(self) -> Iterator[Difference]:
        """Every difference, in the order of the recording."""
        order = [self.workload.nodes[n].name for n in self.cluster.nodes.visit_order]
        if order != self.lines[0]["order"]:
            yield Difference("", "visiting order", self.lines[0]["order"], order)
        for moment, line in enumerate(self.lines[1:]):
            for gone in line.get("removed", ()):
                remove(self.cluster, self.state, self.pods[gone])
            if "bound" not in line:
                yield from self._compare(line)
            for victim in line.get("victims", ()):
                remove(self.cluster, self.state, self.pods[victim])
            where = line.get("bound") or line.get("node") or line.get("retry")
            if where:
                self._place(self.pods[line["pod"]], self.nodes[where], float(moment))

    def _place(self, pod: int, n: int, now: float) -> None:
        gpu, count, left = (
            self.workload.pods[pod].spec.gpu,
            self.workload.nodes[n].gpu_count,
            self.state.gpu_left[n],
        )
        fits = devices_fit(left, count, gpu.count, gpu.milli)
        devices = tightest_devices(left, count, gpu.count, gpu.milli) if fits else 0
        place(self.cluster, self.state, pod, n, devices, now)

    def _compare(self, line: Line) -> Iterator[Difference]:
        pod = self.pods[line["pod"]]
        observation = PodObservation(self.compiled, self.state, self.scratch, pod, 0.0)
        c = observation.pod_class
        self.rule.cursor[0] = line["start"]
        count = find_feasible(self.cluster, self.state, self.scratch, self.rule, c)
        if self.rule.cursor[0] != line["next"]:
            yield Difference(line["pod"], "next start", line["next"], int(self.rule.cursor[0]))
        if count != line["feasible"]:
            yield Difference(line["pod"], "number feasible", line["feasible"], count)
        feasible = self.scratch.nodes[:count].copy()
        names = [self.workload.nodes[n].name for n in feasible]
        by_lot = self._draws_order(c)
        if "order" in line and (sorted if by_lot else list)(names) != (sorted if by_lot else list)(
            line["order"]
        ):
            yield Difference(line["pod"], "feasible order", line["order"], names)
        if "scores" in line:
            score_nodes(self.cluster, self.state, self.rule, c, feasible, count)
            yield from self._scores(line, names)
        self.rule.cursor[0] = line["start"]
        chosen = kube_node(self.cluster, self.state, self.scratch, self.rule, c)
        chosen_name = None if chosen == NOWHERE else self.workload.nodes[chosen].name
        by_lot = by_lot or self.by_lot
        if chosen_name != line.get("node") and not (by_lot and self._tied(line, chosen_name)):
            yield Difference(line["pod"], "node", line.get("node"), chosen_name)
        if "statuses" in line:
            yield from self._verdicts(line, observation)
        if "error" in line:
            yield from self._preemption(line, observation)

    def _draws_order(self, c: int) -> bool:
        """Whether the pod names several nodes: the real scheduler has them in a map without an order."""
        shapes, shape = self.cluster.shapes, self.cluster.classes.shape[c]
        return bool(shapes.narrowed[shape] and shapes.named_start[shape + 1] - shapes.named_start[shape] > 1)

    def _tied(self, line: Line, chosen: str | None) -> bool:
        totals = line.get("totals", {})
        return chosen in totals and totals[chosen] == max(totals.values())

    def _scores(self, line: Line, names: Sequence[str]) -> Iterator[Difference]:
        weighted = (self.rule.weights[:, None] * self.rule.parts[:, : len(names)]).tolist()
        ours = {plugin: dict(zip(names, weighted[p], strict=True)) for p, plugin in enumerate(PLUGINS)}
        real = line["scores"]
        for plugin in sorted({*real, *ours} - SILENT - OUR_OWN):
            # A plugin that skips a pod is left out by the real scheduler; ours gives every node nothing.
            if real.get(plugin, dict.fromkeys(names, 0)) != ours[plugin]:
                yield Difference(line["pod"], f"score {plugin}", real.get(plugin), ours[plugin])
        totals = dict(zip(names, self.rule.totals[: len(names)].tolist(), strict=True))
        if totals != line["totals"]:
            yield Difference(line["pod"], "totals", line["totals"], totals)

    def _verdicts(self, line: Line, observation: PodObservation) -> Iterator[Difference]:
        codes = observation.refusals().tolist()
        for name, status in line["statuses"].items():
            code, plugin, reason = status.split("|", 2)
            if not plugin:  # the node was not looked at, because a plugin had narrowed the search before
                plugin = reason.removeprefix("node(s) didn't satisfy plugin(s) [").removesuffix("]")
            said, _, curable = FILTERS.get(codes[self.nodes[name]], ("", "", False))
            ours = (said, "Unschedulable" if curable else "UnschedulableAndUnresolvable")
            if ours != (plugin, code):
                yield Difference(line["pod"], "verdict", (name, plugin, code), ours)

    def _preemption(self, line: Line, observation: PodObservation) -> Iterator[Difference]:
        codes = observation.refusals().tolist()
        order = self.cluster.nodes.visit_order.tolist()
        potential = [n for n in order if FILTERS.get(codes[n], ("", "", False))[2]]
        allowed = bool(self.cluster.classes.may_preempt[observation.pod_class])
        helped = [n for n in potential if allowed and (observation.victims(n) or ([], 0))[0]]
        nominated = line.get("nominated")
        if not nominated:
            if helped:
                yield Difference(line["pod"], "nominated", None, self.workload.nodes[helped[0]].name)
            return
        n = self.nodes[nominated]
        victims = observation.victims(n) if n in helped else None
        ours = sorted(self._full(p) for p in victims[0]) if victims else None
        if ours != sorted(line["victims"]):
            yield Difference(line["pod"], "victims", line["victims"], ours)
        # Where the search starts is drawn by lot, and so is the choice among equally good candidates.
        first = potential.index(n) if n in potential else 0
        best = (
            self._best(observation, potential, (first + turn) % len(potential))
            for turn in range(len(potential))
        )
        if n not in best:
            yield Difference(line["pod"], "nominated", nominated, "another, wherever the search starts")

    def _best(self, observation: PodObservation, potential: Sequence[int], offset: int) -> int:
        self.scratch.nodes[: len(potential)] = potential
        search = (observation.pod_class, len(potential), offset)
        return int(best_candidate(self.cluster, self.state, self.scratch, self.rule, search))

    def _full(self, pod: int) -> str:
        known = self.workload.pods[pod]
        return _full_name(known.spec.namespace, known.name)


def _full_name(namespace: str, name: str) -> str:
    """Our names carry the namespace only where it is not the default one."""
    return name if "/" in name else f"{namespace}/{name}"
