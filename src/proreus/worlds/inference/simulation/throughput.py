"""What one instance can do, from its timings: for rules that plan with rates."""

from __future__ import annotations

from proreus.worlds.inference.model.cluster import InstanceKind
from proreus.worlds.inference.model.hardware import gpu
from proreus.worlds.inference.model.llm import language_model
from proreus.worlds.inference.model.roofline import roofline
from proreus.worlds.inference.simulation.iteration_time import IterationBatch, Timing, iteration, timing_of
from proreus.worlds.inference.state.observation import Ability

_CHUNK = 2_048
_MEMORY_SHARE, _BATCH_LIMIT = 0.9, 256
"""What vLLM takes of a GPU's memory, and the requests of a batch, unless told otherwise."""


def ability_of(kind: InstanceKind, timing: tuple[Timing, int], kv_bytes: int, context: int) -> Ability:
    """Of an instance of a kind; timing: the run's, and which of them; context: tokens of a usual request."""
    kv_tokens = (kind.capacity - kind.weights) / kv_bytes
    together = int(max(min(kind.batch_limit, kv_tokens // max(context, 1)), 1))
    chunk = min(_CHUNK, kind.token_limit)
    prompts, _, _ = iteration(*timing, IterationBatch(chunk, 0.0, 0, 0, 1))
    tokens, _, _ = iteration(*timing, IterationBatch(0, 0.0, together, together * context, together))
    return Ability(chunk / prompts, together / tokens, float(kv_tokens))


def profiled_ability(model: str, gpu_name: str, gpus: int, context: int = 1_000) -> Ability:
    """Of a model on so many GPUs, from the timings that data sheets allow."""
    kind = InstanceKind(
        name=model,
        model=language_model(model),
        gpu=gpu(gpu_name),
        timing="roofline",
        gpus=gpus,
        engine="chunked",
        batch_limit=_BATCH_LIMIT,
        memory_share=_MEMORY_SHARE,
    )
    timing = timing_of([roofline(kind.model, kind.gpu, gpus)])
    return ability_of(kind, (timing, 0), kind.model.kv_bytes, context)
