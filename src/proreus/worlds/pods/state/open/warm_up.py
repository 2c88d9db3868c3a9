"""Compiles the kernels of an open cluster before the first event has to wait for them."""

from __future__ import annotations

from dataclasses import replace

from proreus.model.node import HOSTNAME, Node
from proreus.model.pod import GpuRequest, Pod, PodAffinity, PodSpec, PodTerm
from proreus.model.resources import GIB, Resources
from proreus.model.selectors import match_labels
from proreus.model.workload import DisruptionBudget
from proreus.worlds.pods.state.open.cluster import OpenCluster
from proreus.worlds.pods.state.open.values import MeasuredLoad


def warm_up_open() -> None:
    """Everything that can happen, once, to a cluster of two nodes."""
    cluster = OpenCluster()
    room = Resources(cpu=1000, memory=GIB, pods=10)
    node = Node("one", room, gpu_count=1, gpu_model="any")
    chosen = match_labels({"app": "a"})
    apart = PodAffinity(required=(PodTerm(chosen, HOSTNAME),))
    spec = PodSpec(Resources(cpu=100), gpu=GpuRequest(1, 100), labels=(("app", "a"),))
    cluster.add_node(Node("gone", room))
    cluster.add_node(node)
    cluster.add_pod(Pod("first", spec), "one")
    cluster.add_pod(Pod("second", replace(spec, anti_affinity=apart)))
    cluster.add_budget(DisruptionBudget("budget", chosen, min_available=1))
    cluster.update_node(replace(node, unschedulable=True))
    cluster.remove_node("gone")
    observation = cluster.observe("second")
    observation.action_mask()
    observation.victims(0)
    cluster.bind_pod("second", "one")
    cluster.remove_pod("second")
    cluster.set_load("one", MeasuredLoad(100.0))
    cluster.columns()
