"""Counts the whole state of a cluster anew from the list of running pods, and compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import I64
from proreus.model.pod import GPU_WHOLE, Pod
from proreus.model.resources import BASE_COLUMNS, PODS, Resources
from proreus.worlds.pods.state.columns import State, Terms
from proreus.worlds.pods.state.compile import Compiled
from tests.oracles.kube_preemption import covers
from tests.oracles.packing import fragmentation, gpu_kind, typical_pods

Where = tuple[int, int]
"""Node and bit mask of devices."""

EXACT_SUMS = (
    "free",
    "gpu_left",
    "scored",
    "kinds",
    "ports_used",
    "matching",
    "matching_in",
    "matching_all",
    "avoided_in",
    "drawn_in",
    "healthy",
)
ROUNDED_SUMS = ("load", "fragment")


def host_ports(pod: Pod) -> list[tuple[str, str, int]]:
    """Host ports with the defaults filled in."""
    return [
        (address or "0.0.0.0", protocol or "TCP", port) for address, protocol, port in pod.spec.host_ports
    ]


def row(resources: Resources, columns: tuple[str, ...]) -> list[int]:
    """Amounts in the order of the columns."""
    amounts = {**dict(zip(BASE_COLUMNS, resources.base(), strict=True)), **dict(resources.extended)}
    return [amounts.get(name, 0) for name in columns]


def recount(compiled: Compiled, running: Mapping[int, Where]) -> dict[str, NDArray[Any]]:
    """Every sum of the state, by name, if exactly these pods run."""
    workload, terms, domain = compiled.workload, compiled.cluster.terms, compiled.cluster.nodes.domain
    pods, nodes = workload.pods, workload.nodes
    widest = max(1, *(node.gpu_count for node in nodes))
    ports = sorted({port for pod in pods for port in host_ports(pod)})
    count, most_domains = len(nodes), max(1, int(compiled.cluster.nodes.domains.max()))
    sums: dict[str, NDArray[Any]] = {
        "free": np.array([row(node.allocatable, compiled.columns) for node in nodes]),
        "gpu_left": np.array([[GPU_WHOLE * (d < node.gpu_count) for d in range(widest)] for node in nodes]),
        "scored": np.zeros((count, 2), dtype=int),
        "load": np.zeros((count, 2)),
        "kinds": np.zeros((count, widest + 1), dtype=int),
        "fragment": np.zeros(count),
        "ports_used": np.zeros((len(ports), count), dtype=int),
        "matching": np.zeros((len(terms.key), count), dtype=int),
        "matching_in": np.zeros((len(terms.key), most_domains), dtype=int),
        "matching_all": np.zeros(len(terms.key), dtype=int),
        "avoided_in": np.zeros((len(terms.key), most_domains), dtype=int),
        "drawn_in": np.zeros((len(terms.key), most_domains), dtype=int),
        "healthy": np.zeros(len(workload.budgets), dtype=int),
    }
    for p, (n, devices) in running.items():
        pod, spec, c = pods[p], pods[p].spec, int(compiled.cluster.pod_class[p])
        asked = row(spec.requests, compiled.columns)
        asked[compiled.columns.index(PODS)] = 1
        sums["free"][n] -= asked
        sums["scored"][n] += spec.scored_requests()
        deviation = spec.usage_deviation * spec.requests.cpu
        sums["load"][n] += (spec.usage * spec.requests.cpu, deviation**2)
        for d in range(widest):
            sums["gpu_left"][n, d] -= spec.gpu.milli * (devices >> d & 1)
        if spec.gpu.count:
            sums["kinds"][n, gpu_kind(pod)] += 1
        for port in host_ports(pod):
            sums["ports_used"][ports.index(port), n] += 1
        for b, budget in enumerate(workload.budgets):
            sums["healthy"][b] += covers(budget, pod)
        count_terms(sums, terms, domain[:, n], (c, n))
    typical = typical_pods(pods)
    for n, node in enumerate(nodes):
        left = sums["gpu_left"][n, : node.gpu_count].tolist()
        sums["fragment"][n] = float(fragmentation(node, int(sums["free"][n, 0]), left, typical))
    return sums


def check_sums(compiled: Compiled, state: State, running: Mapping[int, Where]) -> None:
    """Every incremental sum equals what counting anew gives, and nothing is overdrawn."""
    sums = recount(compiled, running)
    for name in EXACT_SUMS:
        np.testing.assert_array_equal(getattr(state, name), sums[name], err_msg=name)
    for name in ROUNDED_SUMS:
        np.testing.assert_allclose(getattr(state, name), sums[name], rtol=1e-9, atol=1e-6, err_msg=name)
    assert (sums["free"] >= 0).all(), "a resource is over capacity"
    assert (sums["gpu_left"] >= 0).all(), "a device is over capacity"


def check_lists(compiled: Compiled, state: State, running: Mapping[int, Where]) -> None:
    """Each node's linked list holds its pods, each once, and reads the same backwards."""
    assert {p: n for p, n in enumerate(state.pod_node.tolist()) if n >= 0} == {
        p: n for p, (n, _) in running.items()
    }
    for n in range(len(compiled.workload.nodes)):
        listed: list[int] = []
        before, pod = -1, int(state.first[n])
        while pod >= 0:
            assert pod not in listed, f"the list of node {n} runs in a circle"
            assert int(state.preceding[pod]) == before
            listed.append(pod)
            before, pod = pod, int(state.following[pod])
        assert sorted(listed) == sorted(p for p, (node, _) in running.items() if node == n)


def check_devices(compiled: Compiled, running: Mapping[int, Where]) -> None:
    """A pod's devices exist and are as many as it asked for (a bit mask names none twice)."""
    for p, (n, devices) in running.items():
        assert devices.bit_count() == compiled.workload.pods[p].spec.gpu.count
        assert 0 <= devices < 1 << compiled.workload.nodes[n].gpu_count


def count_terms(sums: dict[str, Any], terms: Terms, domain: I64, where: tuple[int, int]) -> None:
    """Add a pod of class c on node n to the sums by term; domain: int64[K], of that node; where: c and n."""
    c, n = where
    for t, key in enumerate(terms.key.tolist()):
        d = int(domain[key])
        if terms.selects[t, c]:
            sums["matching"][t, n] += 1
            if d >= 0:
                sums["matching_in"][t, d] += 1
                sums["matching_all"][t] += 1
        if d >= 0:
            avoided = terms.avoid[terms.avoid_start[c] : terms.avoid_start[c + 1]].tolist()
            sums["avoided_in"][t, d] += avoided.count(t)
            drawn = slice(terms.draw_start[c], terms.draw_start[c + 1])
            weights = zip(terms.draw[drawn].tolist(), terms.draw_weight[drawn].tolist(), strict=True)
            sums["drawn_in"][t, d] += sum(weight for term, weight in weights if term == t)
