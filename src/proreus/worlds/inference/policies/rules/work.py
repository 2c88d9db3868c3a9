"""Load in instances: how many of a pool it keeps busy, and how full those are that there are."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen

USE_OF_ABILITY = 0.7
"""The share of what an instance can do that is asked of it, so that queues stay short."""


def work_of(seen: InferenceObservation, role: Role, prompt_tokens: F64, output_tokens: F64) -> F64:
    """Instances of a pool that so many tokens a second would keep busy all the time."""
    ability = seen.ability(role)
    prompts, tokens = prompt_tokens / ability.prompt_tokens, output_tokens / ability.output_tokens
    match role:
        case "prompt":
            return prompts
        case "token":
            return tokens
        case "mixed":
            return prompts + tokens


def works(seen: InferenceObservation) -> F64:
    """[intervals, pools] the work of each interval that is remembered, in instances."""
    _, prompts, outputs = seen.history.T
    return np.stack([work_of(seen, pool.role, prompts, outputs) for pool in seen.pools], axis=1)


def work_lately(seen: InferenceObservation, seconds: float) -> dict[Role, float]:
    """The work of each pool, mean over the last seconds."""
    rows = max(round(seconds / seen.interval), 1)
    means = works(seen)[-rows:].mean(axis=0)
    return {pool.role: float(mean) for pool, mean in zip(seen.pools, means, strict=True)}


def backlog_seconds(seen: InferenceObservation, pool: PoolSeen) -> float:
    """How long the active instances of a pool would compute the prompts that are planned; 0 for tokens."""
    if pool.role == "token":
        return 0.0
    return pool.pending_tokens / (max(pool.active, 1) * seen.ability(pool.role).prompt_tokens)


def use_of(seen: InferenceObservation, pool: PoolSeen) -> dict[str, float]:
    """What bounds a pool, in shares: KV memory where tokens are decoded, pending tokens where prompts are.

    Pending tokens are held against what the pool computes in a second.
    """
    found: dict[str, float] = {}
    if pool.role != "prompt":
        found["KV memory"] = pool.kv_use
    if pool.role != "token":
        found["pending prompts"] = backlog_seconds(seen, pool)
    return found


def concurrency_of(seen: InferenceObservation, role: Role) -> float:
    """Requests that an instance of a pool serves at one time without delay."""
    requests, prompt_tokens, output_tokens = (float(value) for value in seen.history.mean(axis=0))
    prompt = prompt_tokens / max(requests, 1e-9)
    if role == "prompt":
        return max(seen.ability(role).prompt_tokens / max(prompt, 1.0), 1.0)
    tokens = prompt + output_tokens / max(requests, 1e-9)
    return max(seen.ability(role).kv_tokens / max(tokens, 1.0), 1.0)
