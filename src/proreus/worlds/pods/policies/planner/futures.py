"""Futures: what may come, played to its end by a fast rule on a copy of the cluster.

A future knows of nobody who leaves: it asks how well what is idle now can be filled by demand like that which
was seen. It notes every time that a device comes to have so much left; how much is left there in the end
tells what that was worth (`worth.py`).
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import pack, packable, private
from proreus.worlds.pods.policies.rules.choose import NOWHERE, scored_node
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.policies.rules.scores import choose_devices
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.placement import note_change, shift

_CHANGES = (
    *("free", "gpu_left", "scored", "load", "kinds", "fragment", "ports_used"),
    *("matching", "matching_in", "matching_all", "avoided_in", "drawn_in"),
    *("healthy", "first", "changed", "counts"),
)
"""The columns of a state that a future writes; the others, which tell of single pods, it never reads."""


@packable
class Future(NamedTuple):
    """One future. H arrivals, N nodes, G most GPUs on a node, V visits."""

    state: State
    rule: PodRule
    arrivals: I64  # [H] the class of each
    asked: F64  # [H] GPU demand before each, in capacities
    at: I64  # [2] how many have arrived, how many visits were noted
    place: I64  # [V] the device, N x G places
    left: I64  # [V] what it had left from then on
    when: F64  # [V] the demand until then, in capacities


def begin_future(cluster: Cluster, state: State, rule: PodRule, arrivals: I64) -> Future:
    """A future from `state` on; arrivals: int64[H], the class of each."""
    nodes, widest = state.gpu_left.shape
    classes = cluster.classes
    demand = (classes.gpu_num * classes.gpu_milli)[arrivals]
    capacity = max(float(cluster.nodes.gpu_count.sum()) * 1000.0, 1.0)
    most = nodes * widest + int(classes.gpu_num[arrivals].sum())
    future = pack(
        Future(
            state=_copied(state),
            rule=private(
                rule,
                cache=rule.cache.copy(),
                cache_seen=rule.cache_seen.copy(),
                stamp=rule.stamp.copy(),
                refreshes=rule.refreshes.copy(),
                rng=rule.rng.copy(),
                cursor=rule.cursor.copy(),
                rescored=rule.rescored.copy(),
                features=rule.features.copy(),
            ),
            arrivals=arrivals,
            asked=(np.cumsum(demand) - demand) / capacity,
            at=np.zeros(2, dtype=np.int64),
            place=np.zeros(most, dtype=np.int64),
            left=np.zeros(most, dtype=np.int64),
            when=np.zeros(most),
        )
    )
    note_all(cluster, future)
    return future


def _copied(state: State) -> State:
    return private(state, **{name: cast(I64, getattr(state, name)).copy() for name in _CHANGES})


@compiled
def note_all(cluster: Cluster, future: Future) -> None:
    """A visit of every device as it stands now."""
    widest = future.state.gpu_left.shape[1]
    for n in range(future.state.gpu_left.shape[0]):
        for d in range(cluster.nodes.gpu_count[n]):
            _note(future, n * widest + d, future.state.gpu_left[n, d], 0.0)


@compiled
def _note(future: Future, place: int, left: int, when: float) -> None:
    k = future.at[1]
    future.place[k], future.left[k], future.when[k] = place, left, when
    future.at[1] += 1


@compiled
def play_on(cluster: Cluster, scratch: Scratch, future: Future, most: int) -> bool:
    """Let up to `most` further pods arrive; true when the future is over."""
    state, rule = future.state, future.rule
    widest = state.gpu_left.shape[1]
    last = min(future.arrivals.shape[0], future.at[0] + most)
    for k in range(future.at[0], last):
        c = future.arrivals[k]
        n = scored_node(cluster, state, scratch, rule, c)
        if n == NOWHERE:
            continue
        devices = choose_devices(cluster, state, rule, c, n)
        shift(cluster, state, c, n, devices, 1)
        state.first[n] = max(state.first[n], 0)  # somebody is there; who, nobody asks
        note_change(cluster, state, n)
        for d in range(cluster.nodes.gpu_count[n]):
            if (devices >> d) & 1:
                _note(future, n * widest + d, state.gpu_left[n, d], future.asked[k])
    future.at[0] = last
    return last == future.arrivals.shape[0]
