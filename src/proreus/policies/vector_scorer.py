"""The size-free network over document 000's vector: every node bids by the same few weights.

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

Parameters are one flat float32 vector; `LAYOUT` says what stands where. Kernels take nodes in blocks, so that
they run in vectors. `learning.vector_gradient` has the slopes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from proreus.cluster.columns import F64, I64, Bool
from proreus.cluster.compiled import compiled, compiled_arithmetic
from proreus.encoding.context import F32

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
_NODE, _REMEMBERED, _CONTEXT, _BIAS, _SECOND, _SECOND_BIAS, _PLACE, _PREEMPT = list(START.values())[:8]
_POOLED, _POOLED_CONTEXT, _POOLED_BIAS, _DELAY, _REJECT, _VALUE, _OFFSETS = list(START.values())[8:]

BLOCK = 16  # nodes that a kernel takes at once
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


@compiled_arithmetic
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


@compiled_arithmetic
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


@compiled_arithmetic
def fill_layers(params: F32, base: F32, x: F32, layers: tuple[F32, F32]) -> None:
    """The hidden layers of one block of nodes, twice float32[H, 16], from x: float32[F + K, 16]."""
    first, second = layers
    node = params[_NODE:_CONTEXT].reshape(_F + _K, _H)  # W above M
    across = params[_SECOND:_SECOND_BIAS].reshape(_H, _H)
    for j in range(_H):
        for k in range(BLOCK):
            total = base[j]
            for i in range(_F + _K):
                total += node[i, j] * x[i, k]
            first[j, k] = max(total, _ZERO)
    for j in range(_H):
        bias = params[_SECOND_BIAS + j]
        for k in range(BLOCK):
            total = bias
            for i in range(_H):
                total += across[i, j] * first[i, k]
            second[j, k] = max(total, _ZERO)


@compiled_arithmetic
def fill_logits(params: F32, memory: F32, state: F64, nodes: int, out: tuple[F32, F32]) -> float:
    """Fill the logits, float32[2n + 2], with working space float32[WORK]; returns the value.

    memory: float32[n, K], or [0, K] where there is none.
    """
    logits, work = out
    g, base, pooled, layer = work[:_G], work[16:32], work[32:48], work[48:64]
    x = work[64 : 64 + (_F + _K) * BLOCK].reshape(_F + _K, BLOCK)
    first = work[192 : 192 + _H * BLOCK].reshape(_H, BLOCK)
    second = work[448 : 448 + _H * BLOCK].reshape(_H, BLOCK)
    place, preempt = work[704 : 704 + BLOCK], work[720 : 720 + BLOCK]
    fill_context(state, nodes, g)
    for j in range(_H):
        total, cluster = params[_BIAS + j], params[_POOLED_BIAS + j]
        for i in range(_G):
            total += g[i] * params[_CONTEXT + i * _H + j]
            cluster += g[i] * params[_POOLED_CONTEXT + i * _H + j]
        base[j], layer[j], pooled[j] = total, cluster, _ZERO
    x[:] = _ZERO
    for start in range(0, nodes, BLOCK):
        count = min(BLOCK, nodes - start)
        fill_nodes(state, memory, start, count, x)
        fill_layers(params, base, x, (first, second))
        for k in range(BLOCK):
            place[k] = _ZERO
            preempt[k] = _ZERO
        for j in range(_H):
            by_place, by_preempt = params[_PLACE + j], params[_PREEMPT + j]
            for k in range(BLOCK):
                place[k] += by_place * second[j, k]
                preempt[k] += by_preempt * second[j, k]
        for k in range(count):
            logits[start + k] = place[k]
            logits[nodes + start + k] = preempt[k]
        for j in range(_H):
            total = pooled[j]
            for k in range(count):
                total += second[j, k]
            pooled[j] = total
    share = _ONE / np.float32(nodes)
    for i in range(_H):
        mean = pooled[i] * share
        for j in range(_H):
            layer[j] += mean * params[_POOLED + i * _H + j]
    delay, reject, value = params[_OFFSETS], params[_OFFSETS + 1], params[_OFFSETS + 2]
    for j in range(_H):
        h = np.float32(math.tanh(layer[j]))
        delay += h * params[_DELAY + j]
        reject += h * params[_REJECT + j]
        value += h * params[_VALUE + j]
    logits[2 * nodes] = delay
    logits[2 * nodes + 1] = reject
    return float(value)


WORK = 768
"""Length of the working space of `fill_logits`."""

_LOG2_E, _LN_2, _HALF = (np.float32(x) for x in (1.4426950408889634, math.log(2.0), 0.5))
_E2, _E3, _E4, _E5, _E6 = (np.float32(1.0 / math.factorial(n)) for n in (2, 3, 4, 5, 6))


@compiled_arithmetic
def fill_chances(
    logits: F32, mask: Bool, actions: int, chances: F32, bits: NDArray[np.int32]
) -> tuple[float, float]:
    """Chances, not yet divided by their sum, and (the highest allowed logit, that sum).

    mask: bool[A], or [0] where all actions are allowed. The chance of an action that is not allowed is 0.
    """
    most = np.float32(-math.inf)
    masked = mask.shape[0] > 0
    if masked:
        for k in range(actions):
            most = max(most, logits[k] if mask[k] else np.float32(-math.inf))
    else:
        for k in range(actions):
            most = max(most, logits[k])
    for k in range(actions):  # exp(x) = 2^n e^r, |r| < ln 2 / 2
        x = min(max(logits[k] - most, _LEAST_CHANCE), _ZERO)
        n = np.floor(x * _LOG2_E + _HALF)
        r = x - n * _LN_2
        chances[k] = ((((((_E6 * r + _E5) * r + _E4) * r + _E3) * r + _E2) * r) + _ONE) * r + _ONE
        bits[k] = (np.int32(n) + np.int32(127)) << np.int32(23)
    powers = bits.view(np.float32)
    total = _ZERO
    if masked:
        for k in range(actions):
            chances[k] = chances[k] * powers[k] if mask[k] else _ZERO
    else:
        for k in range(actions):
            chances[k] *= powers[k]
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
    params, memory = model
    chosen, logs = out
    logits = np.empty(actions, dtype=np.float32)
    chances = np.empty(actions, dtype=np.float32)
    bits = np.empty(actions, dtype=np.int32)
    work = np.empty(WORK, dtype=np.float32)
    nodes = (actions - 2) // 2
    none = np.empty(0, dtype=np.bool_)
    for b in range(states.shape[0]):
        fill_logits(params, memory, states[b], nodes, (logits, work))
        mask = masks[b] if masks.shape[0] > 0 else none
        most, total = fill_chances(logits, mask, actions, chances, bits)
        k = pick(chances, actions, total, draws[b])
        chosen[b] = k
        logs[b] = log_chance(logits[k], most, total)


@compiled
def chances_of(model: tuple[F32, F32], state: F64, actions: int, mask: Bool) -> F64:
    """float64[A]: the probability of every action."""
    params, memory = model
    logits = np.empty(actions, dtype=np.float32)
    chances = np.empty(actions, dtype=np.float32)
    work = np.empty(WORK, dtype=np.float32)
    fill_logits(params, memory, state, (actions - 2) // 2, (logits, work))
    _, total = fill_chances(logits, mask, actions, chances, np.empty(actions, dtype=np.int32))
    return chances.astype(np.float64) / total


@compiled
def value_of(model: tuple[F32, F32], state: F64, actions: int) -> float:
    """What the model expects of this state."""
    params, memory = model
    logits = np.empty(actions, dtype=np.float32)
    return fill_logits(params, memory, state, (actions - 2) // 2, (logits, np.empty(WORK, dtype=np.float32)))
