"""The size-free network over the k8s simulator's vector: every node bids by the same few weights.

The vector says per node i which shares of its CPU and memory are in use, x_i, and at its end how much the
task asks for. What is pooled over the nodes and what the task asks for make the context g. Then

    a_i = relu(x_i W + m_i M + g U + b)             m_i: what the model remembers of node i, see below
    h_i = relu(a_i V + c)
    place_i, preempt_i = h_i . place, h_i . preempt
    q = tanh(mean_i(h_i) X + g Y + d)               the cluster as a whole
    delay, reject, value = q . (delay, reject, value) + their offsets

Nothing depends on the number of nodes: one set of weights serves any n. The vector hides much (how large a
node is, whether it has GPUs, how fast it is), and nodes that look the same get the same bid. A model of one
particular cluster may therefore carry a memory, float32[n, K], of figures per node that it learned; it then
serves clusters of that n alone.

Parameters are one flat float32 vector; `LAYOUT` says what stands where. `training.vector.gradient` has
the gradient.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from proreus.kernels.activations import exponentials, tanh_of
from proreus.kernels.arrays import F32, F64, I32, I64, Bool
from proreus.kernels.jit import compiled

NODE_FEATURES = ("cpu", "memory", "fuller", "empty")
CONTEXT = (
    "task_known",  # the vector has a task at its end
    "task_cores",  # logarithm of 1 + cores
    "task_memory",  # logarithm of 1 + GiB
    "memory_per_core",  # the difference of these two
    "mean_cpu",  # over the nodes
    "mean_memory",
    "most_cpu",
    "most_memory",
    "least_cpu",
    "least_memory",
    "empty_nodes",  # their share
    "nodes",  # logarithm of 1 + how many, / 10
)
MEMORY = 4
"""K: figures that a model may remember of each node."""
HIDDEN = 16
_F, _G, _K, _H = len(NODE_FEATURES), len(CONTEXT), MEMORY, HIDDEN

# name -> shape, in the order of the flat vector; inputs come before outputs: [from, to].
LAYOUT: dict[str, tuple[int, ...]] = {
    "node": (_F, _H),  # W
    "remembered": (_K, _H),  # M
    "context": (_G, _H),  # U
    "bias": (_H,),  # b
    "second": (_H, _H),  # V
    "second_bias": (_H,),  # c
    "place": (_H,),
    "preempt": (_H,),
    "pooled": (_H, _H),  # X
    "pooled_context": (_G, _H),  # Y
    "pooled_bias": (_H,),  # d
    "delay": (_H,),
    "reject": (_H,),
    "value": (_H,),
    "offsets": (3,),  # of delay, reject and value
}
_ENDS = np.cumsum([math.prod(shape) for shape in LAYOUT.values()]).tolist()
PARAMETERS: int = _ENDS[-1]
START: dict[str, int] = dict(zip(LAYOUT, [0, *_ENDS], strict=False))
BLOCK = 16
"""Nodes that a kernel takes at once, so that it runs in vectors."""
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
MOST_SHARE = np.float32(4.0)  # inputs beyond what can be are clipped, so that everything stays finite
MOST_TASK = 1e6
TASK_CORES = 100.0  # the vector has a task's milli-CPU / 100,000
_LEAST_CHANCE = np.float32(-80.0)  # the logarithm of the smallest chance that an allowed action can have


def part(vector: F32, name: str) -> F32:
    """The named part of a flat vector in its shape; a view."""
    start = START[name]
    return vector[start : start + math.prod(LAYOUT[name])].reshape(LAYOUT[name])


def initial_parameters(seed: int) -> F32:
    """float32[PARAMETERS]: random hidden layers, bids and heads near zero, so that all choices are open."""
    random = np.random.default_rng(seed)
    vector = np.zeros(PARAMETERS, dtype=np.float32)
    for name in ("node", "remembered", "context", "second", "pooled", "pooled_context"):
        shape = LAYOUT[name]
        part(vector, name)[:] = random.normal(0.0, (2.0 / shape[0]) ** 0.5, shape)
    for name in ("place", "preempt", "delay", "reject", "value"):
        part(vector, name)[:] = random.normal(0.0, 0.01, LAYOUT[name])
    return vector


(
    NODE,
    REMEMBERED,
    CONTEXT_WEIGHTS,
    BIAS,
    SECOND,
    SECOND_BIAS,
    PLACE,
    PREEMPT,
    POOLED,
    POOLED_CONTEXT,
    POOLED_BIAS,
    DELAY,
    REJECT,
    VALUE,
    OFFSETS,
) = START.values()  # where each part starts in the flat vector; M stands right behind W


class VectorScratch(NamedTuple):
    """Working space of one forward pass."""

    context: F32  # [G] g
    base: F32  # [H] g U + b
    features: F32  # [F + K, 16] of a block of nodes
    first: F32  # [H, 16] their a
    second: F32  # [H, 16] their h
    sums: F32  # [H, 16] of the h of all blocks
    mean: F32  # [H] of h over all nodes
    layer: F32  # [H] q


@compiled
def new_vector_scratch() -> VectorScratch:
    """Working space, not yet filled."""
    kind = np.float32
    return VectorScratch(
        np.empty(_G, kind),
        np.empty(_H, kind),
        np.zeros((_F + _K, BLOCK), kind),
        np.empty((_H, BLOCK), kind),
        np.empty((_H, BLOCK), kind),
        np.empty((_H, BLOCK), kind),
        np.empty(_H, kind),
        np.empty(_H, kind),
    )


# In the loops below the innermost has a fixed length and the one around it runs over neighbours in memory:
# the compiler then unrolls the one and runs the other in vectors.


@compiled
def fill_context(state: F64, nodes: int, g: F32) -> None:
    """g: float32[G] of the vector of so many nodes; see CONTEXT."""
    mean_cpu = mean_memory = most_cpu = most_memory = empty = _ZERO
    least_cpu = least_memory = MOST_SHARE
    for i in range(nodes):
        cpu = min(max(np.float32(state[2 * i]), _ZERO), MOST_SHARE)
        memory = min(max(np.float32(state[2 * i + 1]), _ZERO), MOST_SHARE)
        mean_cpu += cpu
        mean_memory += memory
        most_cpu = max(most_cpu, cpu)
        most_memory = max(most_memory, memory)
        least_cpu = min(least_cpu, cpu)
        least_memory = min(least_memory, memory)
        empty += _ONE if max(cpu, memory) == _ZERO else _ZERO
    share = _ONE / np.float32(nodes)
    known = state.shape[0] > 2 * nodes
    cores = state[2 * nodes] * TASK_CORES if known else 0.0
    gib = state[2 * nodes + 1] if known else 0.0
    g[0] = _ONE if known else _ZERO
    g[1] = np.float32(math.log1p(min(max(cores, 0.0), MOST_TASK)))
    g[2] = np.float32(math.log1p(min(max(gib, 0.0), MOST_TASK)))
    g[3] = g[2] - g[1]
    g[4], g[5] = mean_cpu * share, mean_memory * share
    g[6], g[7], g[8], g[9] = most_cpu, most_memory, least_cpu, least_memory
    g[10] = empty * share
    g[11] = np.float32(math.log1p(nodes) / 10.0)


@compiled
def fill_base(params: F32, g: F32, base: F32) -> None:
    """base: float32[H], what the context adds to the first layer of every node."""
    for j in range(_H):
        total = params[BIAS + j]
        for i in range(_G):
            total += g[i] * params[CONTEXT_WEIGHTS + i * _H + j]
        base[j] = total


@compiled
def fill_nodes(state: F64, memory: F32, start: int, count: int, x: F32) -> None:
    """x: float32[F + K, 16], the features of `count` nodes from `start` on; what is behind them stays."""
    for k in range(count):
        cpu = min(max(np.float32(state[2 * (start + k)]), _ZERO), MOST_SHARE)
        mem = min(max(np.float32(state[2 * (start + k) + 1]), _ZERO), MOST_SHARE)
        fuller = max(cpu, mem)
        x[0, k], x[1, k], x[2, k] = cpu, mem, fuller
        x[3, k] = _ONE if fuller == _ZERO else _ZERO
    if memory.shape[0] > 0:
        for k in range(count):
            for i in range(_K):
                x[_F + i, k] = memory[start + k, i]


@compiled
def fill_layers(params: F32, base: F32, x: F32, first: F32, second: F32) -> None:
    """The hidden layers of one block of nodes, float32[H, 16] each, from x: float32[F + K, 16]."""
    for j in range(_H):
        for k in range(BLOCK):
            total = base[j]
            for i in range(_F + _K):
                total += params[NODE + i * _H + j] * x[i, k]
            first[j, k] = max(total, _ZERO)
    for j in range(_H):
        for k in range(BLOCK):
            total = params[SECOND_BIAS + j]
            for i in range(_H):
                total += params[SECOND + i * _H + j] * first[i, k]
            second[j, k] = max(total, _ZERO)


@compiled
def add_sums(second: F32, count: int, sums: F32) -> None:
    """Add the h of the first `count` nodes of a block to sums: float32[H, 16]."""
    if count == BLOCK:
        for j in range(_H):
            for k in range(BLOCK):
                sums[j, k] += second[j, k]
    else:
        for j in range(_H):
            for k in range(BLOCK):
                sums[j, k] += second[j, k] if k < count else _ZERO


@compiled
def fill_cluster(params: F32, g: F32, sums: F32, nodes: int, out: tuple[F32, F32]) -> None:
    """out: the mean of h over the nodes and q, float32[H] each; see the module's text."""
    mean, layer = out
    share = _ONE / np.float32(nodes)
    for j in range(_H):
        total = _ZERO
        for k in range(BLOCK):
            total += sums[j, k]
        mean[j] = total * share
    for j in range(_H):
        total = params[POOLED_BIAS + j]
        for i in range(_G):
            total += g[i] * params[POOLED_CONTEXT + i * _H + j]
        layer[j] = total
    for j in range(_H):
        total = layer[j]
        for i in range(_H):
            total += mean[i] * params[POOLED + i * _H + j]
        layer[j] = total
    tanh_of(layer)


@compiled
def head(params: F32, layer: F32, start: int, offset: int) -> float:
    """Delay, reject or value: q times the weights at `start`, plus its offset."""
    total = params[OFFSETS + offset]
    for j in range(_H):
        total += layer[j] * params[start + j]
    return total


@compiled
def fill_logits(params: F32, memory: F32, state: F64, logits: F32, work: VectorScratch) -> float:
    """Fill the logits, float32[2n + 2]; returns the value. memory: float32[n, K], or [0, K] for none."""
    nodes = (logits.shape[0] - 2) // 2
    g, base, x, second, sums = work.context, work.base, work.features, work.second, work.sums
    fill_context(state, nodes, g)
    fill_base(params, g, base)
    sums[:] = _ZERO
    for start in range(0, nodes, BLOCK):
        count = min(BLOCK, nodes - start)
        fill_nodes(state, memory, start, count, x)
        fill_layers(params, base, x, work.first, second)
        add_sums(second, count, sums)
        for k in range(count):
            place = preempt = _ZERO
            for j in range(_H):
                place += params[PLACE + j] * second[j, k]
                preempt += params[PREEMPT + j] * second[j, k]
            logits[start + k] = place
            logits[nodes + start + k] = preempt
    layer = work.layer
    fill_cluster(params, g, sums, nodes, (work.mean, layer))
    logits[2 * nodes] = head(params, layer, DELAY, 0)
    logits[2 * nodes + 1] = head(params, layer, REJECT, 1)
    return float(head(params, layer, VALUE, 2))


@compiled
def fill_chances(logits: F32, masks: Bool, row: int, chances: F32, bits: I32) -> tuple[float, float]:
    """Chances, float32[A], not yet divided by their sum, and (the highest allowed logit, that sum).

    masks: bool[B, A], of which `row` counts, or [0, A] where all actions are allowed. The chance of an action
    that is not allowed is 0. bits: working space, int32[A].
    """
    actions = logits.shape[0]
    most = np.float32(-math.inf)
    masked = masks.shape[0] > 0
    if masked:
        for k in range(actions):
            most = max(most, logits[k] if masks[row, k] else np.float32(-math.inf))
    else:
        for k in range(actions):
            most = max(most, logits[k])
    exponentials(logits, (most, _LEAST_CHANCE), chances, bits)
    if masked:
        for k in range(actions):
            if not masks[row, k]:
                chances[k] = _ZERO
    total = _ZERO
    for k in range(actions):
        total += chances[k]
    return float(most), float(total)


@compiled
def pick(chances: F32, actions: int, total: float, draw: float) -> int:
    """The action at `draw` of the distribution; for a draw below 0 the likeliest, the first among equals."""
    if draw < 0.0:
        best = 0
        for k in range(1, actions):
            if chances[k] > chances[best]:
                best = k
        return best
    aim, passed, last = draw * total, 0.0, -1
    for start in range(0, actions, BLOCK):
        end = min(start + BLOCK, actions)
        block = 0.0
        for k in range(start, end):
            block += chances[k]
        if passed + block <= aim:
            passed += block
            continue
        for k in range(start, end):
            if chances[k] > 0.0:
                last = k
            passed += chances[k]
            if passed > aim and chances[k] > 0.0:
                return k
    if last >= 0:
        return last
    for k in range(actions - 1, -1, -1):  # the draw fell behind the sum's last digit
        if chances[k] > 0.0:
            return k
    return 0


@compiled
def log_chance(logit: float, most: float, total: float) -> float:
    """Logarithm of the chance of an action with this logit; see `fill_chances`."""
    return max(logit - most, float(_LEAST_CHANCE)) - math.log(total)


@compiled
def decide_rows(
    model: tuple[F32, F32], states: F64, actions: int, masks: Bool, draws: F64, out: tuple[I64, F64]
) -> None:
    """One decision per row of states, float64[B, S]; out: (int64[B] actions, float64[B] log-probabilities).

    masks: bool[B, A], or [0, A] for none.
    """
    chosen, logs = out
    params, memory, work = model[0], model[1], new_vector_scratch()
    logits = np.empty(actions, dtype=np.float32)
    chances = np.empty(actions, dtype=np.float32)
    bits = np.empty(actions, dtype=np.int32)
    for b in range(states.shape[0]):
        fill_logits(params, memory, states[b], logits, work)
        most, total = fill_chances(logits, masks, b, chances, bits)
        k = pick(chances, actions, total, draws[b])
        chosen[b] = k
        logs[b] = log_chance(logits[k], most, total)


@compiled
def chances_of(model: tuple[F32, F32], state: F64, actions: int, mask: Bool) -> F64:
    """float64[A]: the probability of every action; mask: bool[1, A], or [0, A] for none."""
    logits = np.empty(actions, dtype=np.float32)
    chances = np.empty(actions, dtype=np.float32)
    fill_logits(model[0], model[1], state, logits, new_vector_scratch())
    _, total = fill_chances(logits, mask, 0, chances, np.empty(actions, dtype=np.int32))
    return chances.astype(np.float64) / total


@compiled
def logits_of(model: tuple[F32, F32], states: F64, logits: F32, values: F64) -> None:
    """Fill float32[B, A] logits and float64[B] values of states: float64[B, S]."""
    work = new_vector_scratch()
    for b in range(states.shape[0]):
        values[b] = fill_logits(model[0], model[1], states[b], logits[b], work)
