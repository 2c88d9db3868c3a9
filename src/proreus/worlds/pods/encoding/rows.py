"""What a learned policy chooses among: one row of pair features per legal node.

Training, evaluation and serving all list the rows with `list_choice`. Rows are cached per class and node and
computed again only for nodes that changed, as the rules do with their scores.

Either every row is a placement, or, where no node can take the pod as it is, every row is a preemption:
policies evict only when they must, as kube-scheduler does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F32, F64, I8, I64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import pack, packable
from proreus.worlds.pods.encoding.context import context_scale, encode_choice, encode_context
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES, cluster_scale, encode_pair
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.filters import CURABLE, OK
from proreus.worlds.pods.state.legality import (
    affinity_refusal,
    has_relations,
    local_refusal,
    prepare,
    refusal,
    spread_refusal,
)
from proreus.worlds.pods.state.victims import choose_victims

_FEATURES = len(PAIR_FEATURES)


@packable
class Encoder(NamedTuple):
    """The encoding bound to one cluster, with its cache. N nodes, C classes, F pair features."""

    scale: F64  # see `encoding.pair.cluster_scale`
    context_scale: F64  # see `encoding.context.context_scale`
    cached: bool
    features: F32  # [C, N, F]; [1, N, F] without a cache
    code: I8  # [C, N] what the node by itself says to the class; [1, N] without a cache
    devices: I64  # [C, N] the devices the features stand for; [1, N] without a cache
    seen: I64  # [C] number of changes the cache has seen, -1 never filled
    stamp: I64  # [N] the refresh in which the node was last computed
    refreshes: I64  # [1]
    pair: F64  # [F] working space


def new_encoder(compiled_workload: Compiled, most_bytes: int = 64 << 20) -> Encoder:
    """The encoding of a cluster; its cache takes at most `most_bytes`, else there is none."""
    nodes, count = len(compiled_workload.workload.nodes), len(compiled_workload.specs)
    cached = count * nodes * (4 * _FEATURES + 9) <= most_bytes
    held = count if cached else 1
    return pack(
        Encoder(
            scale=cluster_scale(compiled_workload),
            context_scale=context_scale(compiled_workload),
            cached=cached,
            features=np.zeros((held, nodes, _FEATURES), dtype=np.float32),
            code=np.zeros((held, nodes), dtype=np.int8),
            devices=np.zeros((held, nodes), dtype=np.int64),
            seen=np.full(count, -1, dtype=np.int64),
            stamp=np.zeros(nodes, dtype=np.int64),
            refreshes=np.zeros(1, dtype=np.int64),
            pair=np.zeros(_FEATURES),
        )
    )


@compiled
def gather(
    cluster: Cluster, state: State, scratch: Scratch, encoder: Encoder, c: int, nodes: I64
) -> tuple[int, bool]:
    """(rows, whether they preempt) for class c; nodes: int64[N], the node of each row.

    `copy_rows` and `row_devices` then say what the rows hold.
    """
    held = _refresh(cluster, state, encoder, c)
    related = has_relations(cluster, c)
    if related:
        prepare(cluster, state, c, scratch)
    count = 0
    for n in range(nodes.shape[0]):
        if encoder.code[held, n] != OK:
            continue
        if related and (
            spread_refusal(cluster, c, n, scratch) != OK or affinity_refusal(cluster, state, c, n) != OK
        ):
            continue
        nodes[count] = n
        count += 1
    if count > 0 or not _may_evict(cluster, c):
        return count, False
    prepare(cluster, state, c, scratch)
    for n in range(nodes.shape[0]):
        if not CURABLE[refusal(cluster, state, c, n, scratch)]:
            continue
        if choose_victims(cluster, state, c, n, scratch)[0] > 0:
            _encode(cluster, state, encoder, (c, n), held)
            nodes[count] = n
            count += 1
    return count, True


@compiled
def _may_evict(cluster: Cluster, c: int) -> bool:
    """Whether class c may preempt and some class, or a pod that states nothing, has a lower priority."""
    return cluster.classes.may_preempt[c] and cluster.classes.priority[c] > min(
        cluster.classes.priority.min(), 0
    )


@compiled
def list_choice(
    cluster: Cluster,
    state: State,
    scratch: Scratch,
    encoder: Encoder,
    pod: tuple[int, int],
    into: tuple[I64, F32],
) -> tuple[int, bool]:
    """(rows, whether they preempt) as `gather` lists them, and the context of the choice.

    pod: its class, pods waiting; into: int64[N], the node of each row, and float32[G], the context.
    """
    c, waiting = pod
    nodes, context = into
    rows, preempts = gather(cluster, state, scratch, encoder, c, nodes)
    preempting = preempts and rows > 0
    encode_context(cluster, state, encoder.context_scale, c, waiting, context)
    encode_choice(nodes.shape[0], rows, preempting, context)
    return rows, preempting


@compiled
def copy_rows(encoder: Encoder, c: int, nodes: I64, count: int, out: F32) -> None:
    """out: float32[.., F], the features of the rows that `gather` listed, in its order."""
    held = c if encoder.cached else 0
    for k in range(count):
        row = encoder.features[held, nodes[k]]
        for i in range(_FEATURES):
            out[k, i] = row[i]


@compiled
def row_devices(encoder: Encoder, c: int, n: int) -> int:
    """The devices of node n that the features of class c stand for, as a bit mask."""
    return encoder.devices[c if encoder.cached else 0, n]


@compiled
def _refresh(cluster: Cluster, state: State, encoder: Encoder, c: int) -> int:
    """Bring class c of the cache up to date; returns its place in the cache."""
    held = c if encoder.cached else 0
    seen, now = encoder.seen[c], state.counts[0]
    ring = state.changed.shape[0]
    if not encoder.cached or seen < 0 or now - seen > ring:
        for n in range(state.first.shape[0]):
            _look(cluster, state, encoder, (c, n), held)
    else:
        encoder.refreshes[0] += 1
        for k in range(seen, now):
            n = state.changed[k % ring]
            if encoder.stamp[n] != encoder.refreshes[0]:  # once, however often the node changed
                encoder.stamp[n] = encoder.refreshes[0]
                _look(cluster, state, encoder, (c, n), held)
    encoder.seen[c] = now
    return held


@compiled
def _look(cluster: Cluster, state: State, encoder: Encoder, pair: tuple[int, int], held: int) -> None:
    c, n = pair
    code = local_refusal(cluster, state, c, n)
    encoder.code[held, n] = code
    if code == OK:
        _encode(cluster, state, encoder, pair, held)


@compiled
def _encode(cluster: Cluster, state: State, encoder: Encoder, pair: tuple[int, int], held: int) -> None:
    c, n = pair
    encoder.devices[held, n] = encode_pair(cluster, state, encoder.scale, c, n, encoder.pair)
    row = encoder.features[held, n]
    for i in range(_FEATURES):
        row[i] = encoder.pair[i]
