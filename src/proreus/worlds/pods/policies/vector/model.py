"""Decisions from the k8s simulator's vector: shares of CPU and memory in use per node, then the task.

A vector of length 2n, or 2n + 2 with the task, is answered by one of 2n + 2 actions: 0..n-1 place on that
node, n..2n-1 preempt there, 2n delay, 2n+1 reject. n follows from the number of actions. Services, clients
and the simulated plugin decide through `VectorModel`; no torch is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F32, F64, I64, Bool
from proreus.kernels.jit import compiled
from proreus.model.errors import InputError
from proreus.policies.checkpoint import CARD, WEIGHTS, Card, Checkpoint, load_checkpoint, read_card
from proreus.workers.cores import available_cores
from proreus.worlds.pods.policies.vector import mlp as vector_mlp
from proreus.worlds.pods.policies.vector import scorer as vector_scorer

VECTOR_ENCODING = "vector-1"
"""What the entries of the vector mean to a model; a checkpoint of another encoding is refused."""
SCORER, MLP = "vector-scorer", "vector-mlp"
_PRETRAINED = Path(__file__).resolve().parents[2] / "pretrained"
PRETRAINED_VECTOR = _PRETRAINED / "vector"
SHIPPED = {"vector": PRETRAINED_VECTOR, "vector-k8ssim": _PRETRAINED / "vector-k8ssim"}
"""Checkpoints that come with the package: size-free, and for the k8s simulator's cluster of 500 nodes."""
_OF_ONE_CLUSTER = {500: "vector-k8ssim"}
_ROWS_PER_THREAD = 256  # fewer are not worth waking a thread for
_NO_MASK = np.zeros(0, dtype=np.bool_)
Tensors = Mapping[str, NDArray[Any]]


def shipped_for(nodes: int) -> str:
    """The name of the shipped model that is best for so many nodes.

    One that knows a cluster of that size, though it may be another cluster: where nodes refuse in vain named
    tasks, minding refusals makes it as good as the size-free one.
    """
    return _OF_ONE_CLUSTER.get(nodes, "vector")


class VectorModel(Protocol):
    """Decides from vectors. Every method may be called from many threads at once."""

    @property
    def kind(self) -> str:
        """ "vector-scorer" (any n) or "vector-mlp" (one n)."""
        ...

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        """The weights, as a checkpoint keeps them."""
        ...

    def accepts(self, state_length: int, actions: int) -> str | None:
        """None, or why vectors of this length with so many actions cannot be decided; one line."""
        ...

    def chances(self, state: F64, actions: int, mask: Bool | None) -> F64:
        """float64[A]: the probability of every action; 0 where the mask forbids it."""
        ...

    def decide(self, state: F64, actions: int, mask: Bool | None, draw: float) -> tuple[int, float]:
        """(action, log-probability of it under the policy).

        A draw from 0 to below 1 samples by the inverse of the cumulated chances; one below 0 takes the
        likeliest action, the first among equals.
        """
        ...

    def decide_batch(self, states: F64, actions: int, masks: Bool | None, draws: F64) -> tuple[I64, F64]:
        """The same for rows: [B, S] -> [B], [B]; spread over threads, without Python's lock."""
        ...


def refusal(state_length: int, actions: int) -> str | None:
    """None, or why no model could decide this: the lengths do not belong together."""
    if actions < 4 or actions % 2:
        return f"action_dim {actions} is not 2n + 2 for any number of nodes n"
    nodes = (actions - 2) // 2
    if state_length not in (2 * nodes, 2 * nodes + 2):
        wanted = f"{2 * nodes} or {2 * nodes + 2}"
        return f"state has length {state_length}, not {wanted}, as {actions} actions ({nodes} nodes) need"
    return None


class VectorScorer:
    """The size-free network, optionally with a memory of one cluster's nodes."""

    kind = SCORER

    def __init__(self, parameters: F32, memory: F32 | None = None) -> None:
        self.parameters = np.ascontiguousarray(parameters, dtype=np.float32)
        empty = np.zeros((0, vector_scorer.MEMORY), dtype=np.float32)
        self.memory = empty if memory is None else np.ascontiguousarray(memory, dtype=np.float32)
        self._model = (self.parameters, self.memory)

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        """The flat parameters, and the memory where there is one."""
        return {"parameters": self.parameters} | ({"memory": self.memory} if len(self.memory) else {})

    def accepts(self, state_length: int, actions: int) -> str | None:
        nodes = (actions - 2) // 2
        if len(self.memory) and refusal(state_length, actions) is None and nodes != len(self.memory):
            return f"this model knows one cluster of {len(self.memory)} nodes, and is asked about {nodes}"
        return refusal(state_length, actions)

    def chances(self, state: F64, actions: int, mask: Bool | None) -> F64:
        chances: F64 = vector_scorer.chances_of(self._model, state, actions, _rows(mask, actions))
        return chances

    def decide(self, state: F64, actions: int, mask: Bool | None, draw: float) -> tuple[int, float]:
        out = (np.empty(1, dtype=np.int64), np.empty(1))
        rows = _rows(mask, actions)
        vector_scorer.decide_rows(self._model, state.reshape(1, -1), actions, rows, np.array([draw]), out)
        return int(out[0][0]), float(out[1][0])

    def decide_batch(self, states: F64, actions: int, masks: Bool | None, draws: F64) -> tuple[I64, F64]:
        return _in_threads(vector_scorer.decide_rows, self._model, (states, actions, masks, draws))


class VectorMLP:
    """The k8s simulator's plain network: one length of the vector, one number of actions."""

    kind = MLP

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = {name: np.asarray(tensors[name], dtype=np.float32) for name in vector_mlp.TENSORS}
        self._actor = vector_mlp.layers_of(self._tensors, "actor")
        self.state_length = int(self._actor[0].shape[0])
        self.actions = int(self._actor[5].shape[0])

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        """Named and shaped as the state dict of `policies.networks.FixedActorCritic`."""
        return dict(self._tensors)

    def accepts(self, state_length: int, actions: int) -> str | None:
        if (state_length, actions) != (self.state_length, self.actions):
            return (
                f"this model takes {self.state_length} inputs and {self.actions} actions, "
                f"not {state_length} and {actions}"
            )
        return None

    def chances(self, state: F64, actions: int, mask: Bool | None) -> F64:
        chances: F64 = vector_mlp.chances_of(self._actor, state, actions, _rows(mask, actions))
        return chances

    def decide(self, state: F64, actions: int, mask: Bool | None, draw: float) -> tuple[int, float]:
        out = (np.empty(1, dtype=np.int64), np.empty(1))
        rows = _rows(mask, actions)
        vector_mlp.decide_rows(self._actor, state.reshape(1, -1), actions, rows, np.array([draw]), out)
        return int(out[0][0]), float(out[1][0])

    def decide_batch(self, states: F64, actions: int, masks: Bool | None, draws: F64) -> tuple[I64, F64]:
        return _in_threads(vector_mlp.decide_rows, self._actor, (states, actions, masks, draws))


def _rows(mask: Bool | None, actions: int) -> Bool:
    """bool[1, A], or [0, A] for no mask."""
    return (_NO_MASK if mask is None else mask).reshape(-1, actions)


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, available_cores() - 1), "decide")


def _in_threads(kernel: Any, model: Any, asked: tuple[F64, int, Bool | None, F64]) -> tuple[I64, F64]:
    """Rows shared out over threads; a row's answer does not depend on which thread works on it."""
    states, actions, masks, draws = asked
    states = np.ascontiguousarray(states)
    count = len(states)
    out = (np.empty(count, dtype=np.int64), np.empty(count))
    rows = _rows(None, actions) if masks is None else np.ascontiguousarray(masks)
    parts = max(1, min(available_cores(), count // _ROWS_PER_THREAD))
    edges = np.linspace(0, count, parts + 1).astype(np.int64).tolist()

    def work(k: int) -> None:
        piece = slice(edges[k], edges[k + 1])
        some = rows if masks is None else rows[piece]
        kernel(model, states[piece], actions, some, draws[piece], (out[0][piece], out[1][piece]))

    waiting = [_threads().submit(work, k) for k in range(1, parts)]
    work(0)
    for future in waiting:
        future.result()
    return out


_GOLDEN, _FIRST, _SECOND = (
    np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_R30, _R27, _R31, _R11 = (np.uint64(x) for x in (30, 27, 31, 11))


@compiled
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> _R30)) * _FIRST
    z = (z ^ (z >> _R27)) * _SECOND
    return z ^ (z >> _R31)


@compiled
def _draw(key: np.uint64, state: F64) -> float:
    """A number from 0 to just below 1 for state: float64[S]."""
    plus = state + 0.0  # minus zero is zero
    words = plus.view(np.uint64)
    count = words.shape[0]
    a, b = _mix(key + _GOLDEN), _mix(key ^ _FIRST)
    c, d = _mix(a ^ _SECOND), _mix(b + _SECOND)
    whole = count // 4 * 4
    for i in range(0, whole, 4):  # four chains, so that none waits for the others
        a = _mix((a ^ words[i]) + _GOLDEN)
        b = _mix((b ^ words[i + 1]) + _GOLDEN)
        c = _mix((c ^ words[i + 2]) + _GOLDEN)
        d = _mix((d ^ words[i + 3]) + _GOLDEN)
    for i in range(whole, count):
        a = _mix((a ^ words[i]) + _GOLDEN)
    total = _mix(_mix(_mix(_mix(a) ^ b) ^ c) ^ d + np.uint64(count))
    return float(np.int64(total >> _R11)) * 2.0**-53


@compiled
def _draw_rows(key: np.uint64, states: F64, draws: F64) -> None:
    """states: [B, S]; draws: [B], filled."""
    for b in range(states.shape[0]):
        draws[b] = _draw(key, states[b])


def draw_of(seed: int, version: int, state: F64) -> float:
    """The number at which this version samples in this state: a keyed hash of the vector, in [0, 1).

    The same state at the same version samples the same action over every door; a new version or seed
    draws anew.
    """
    return float(_draw(_key(seed, version), state))


def draws_of(seed: int, version: int, states: F64) -> F64:
    """`draw_of` every row: [B, S] -> [B]."""
    draws = np.empty(len(states))
    _draw_rows(_key(seed, version), states, draws)
    return draws


def _key(seed: int, version: int) -> np.uint64:
    return np.uint64((seed * 0x2545F4914F6CDD1D + version * 0x9E3779B97F4A7C15) % 2**64)


def fresh_scorer(seed: int) -> VectorScorer:
    """An untrained size-free model."""
    return VectorScorer(vector_scorer.initial_parameters(seed))


def model_of(kind: str, tensors: Tensors, folder: Path) -> VectorModel:
    """The model of a kind with these weights; an InputError names what does not fit."""
    match kind:
        case "vector-scorer":
            _check(tensors, "parameters", (vector_scorer.PARAMETERS,), folder)
            memory = tensors.get("memory")
            if memory is not None:
                _check(tensors, "memory", (len(memory), vector_scorer.MEMORY), folder)
            return VectorScorer(tensors["parameters"], memory)
        case "vector-mlp":
            wide = vector_mlp.WIDTH
            inputs, actions = (
                int(np.asarray(tensors.get(name, np.zeros((0, 0)))).reshape(-1, 1).shape[0]) // wide
                for name in ("actor.0.weight", "actor.4.weight")
            )
            for side, outputs in (("actor", actions), ("critic", 1)):
                for layer, shape in ((0, (wide, inputs)), (2, (wide, wide)), (4, (outputs, wide))):
                    _check(tensors, f"{side}.{layer}.weight", shape, folder)
                    _check(tensors, f"{side}.{layer}.bias", shape[:1], folder)
            return VectorMLP(tensors)
        case _:
            raise InputError(
                f"a {kind!r} policy cannot decide from the k8s simulator's vector",
                file=folder / CARD,
                field="kind",
            )


def _check(tensors: Tensors, name: str, shape: tuple[int, ...], folder: Path) -> None:
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
        raise InputError(f"needs finite numbers of shape {shape}", file=folder / WEIGHTS, field=name)


def checkpoint_of(model: VectorModel, algorithm: str, **card: Any) -> Checkpoint:
    """The model as a checkpoint; `card` are further fields of `Card`."""
    about = Card(world="pods", kind=model.kind, algorithm=algorithm, encoding=VECTOR_ENCODING, **card)
    return Checkpoint(about, model.tensors)


def check_vector_kind(card: Card, path: Path) -> None:
    """A policy that decides about pods by name is no model over vectors, and is served elsewhere."""
    if card.encoding != VECTOR_ENCODING and not card.kind.startswith("vector"):
        raise InputError(
            f"a {card.kind!r} policy for {card.world!r} does not answer /predict: "
            f"serve it to /v1/decide with --policy {path}",
            file=path / CARD,
            field="kind",
        )


def load_vector_model(path: Path) -> VectorModel:
    """The model of the checkpoint in folder `path`; an InputError says which file is wrong and how."""
    check_vector_kind(read_card(path / CARD), path)
    checkpoint = load_checkpoint(path, VECTOR_ENCODING)
    return model_of(checkpoint.card.kind, checkpoint.tensors, path)


@dataclass(frozen=True, eq=False)
class Weights:
    """What a learner improves: the kind of a model and its tensors."""

    kind: str
    tensors: dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Candidate:
    """What a learner returns: new weights, and figures about how it got there."""

    parameters: Weights
    figures: dict[str, float]


# The rule that stands in for a vector model: fill the fullest node that still has room.
#
# It reads the state of the k8s simulator: per node the used share of CPU and of memory, then perhaps the
# task's own demand. That demand is in absolute units and the capacity of a node is not in the state, so room
# can only be judged by share: a node has room while less than `FULL` of its CPU and of its memory is used. Of
# the nodes with room the rule takes the one with most in use (CPU share plus memory share; equal ones: the
# first). Where none has room it delays; where delaying is not allowed it takes the least used node that is
# allowed, then the first preemption that is allowed, then rejects.

FULL = 0.95
"""The used share from which a node counts as full."""


@compiled
def fullest_with_room(state: F64, mask: Bool) -> int:
    """state: [2n or 2n+2]; mask: [2n+2], with something allowed. The action."""
    n = (mask.shape[0] - 2) // 2
    best, most = -1, 0.0
    emptiest, least = -1, 0.0
    for node in range(n):
        if not mask[node]:
            continue
        cpu, memory = state[2 * node], state[2 * node + 1]
        used = cpu + memory
        if cpu < FULL and memory < FULL and (best < 0 or used > most):
            best, most = node, used
        if emptiest < 0 or used < least:
            emptiest, least = node, used
    if best >= 0:
        return best
    if mask[2 * n]:
        return 2 * n
    if emptiest >= 0:
        return emptiest
    for node in range(n):
        if mask[n + node]:
            return n + node
    return 2 * n + 1
