"""The metrics of SGLang's servers that mean what vLLM's mean, by the names of vLLM's."""

from __future__ import annotations

from proreus.worlds.inference.model import vllm

RUNNING = "sglang:num_running_reqs"
PROMPT_TOKENS = "sglang:prompt_tokens_total"
"""Counted when a request ends, and so are those of them that a cache knew."""
CACHED_TOKENS = "sglang:cached_tokens_total"
HIT_RATE = "sglang:cache_hit_rate"
"""Of the last batch of prompts; servers that count cached tokens have it as well."""
_HISTOGRAMS = {
    "sglang:time_to_first_token_seconds": vllm.TTFT,
    "sglang:inter_token_latency_seconds": vllm.TBT,
    "sglang:time_per_output_token_seconds": vllm.TBT,
    "sglang:queue_time_seconds": vllm.QUEUE_TIME,
}
"""Time between tokens is observed for every token here, for every request there; it has had two names."""
NAMES = {
    RUNNING: vllm.RUNNING,
    "sglang:num_queue_reqs": vllm.WAITING,
    "sglang:token_usage": vllm.KV_USE,
    PROMPT_TOKENS: f"{vllm.PROMPT_TOKENS}_total",
    "sglang:generation_tokens_total": f"{vllm.OUTPUT_TOKENS}_total",
    "sglang:num_requests_total": f"{vllm.ENDED}_total",
    CACHED_TOKENS: f"{vllm.PREFIX_HITS}_total",
    HIT_RATE: vllm.HIT_RATE,
    **{
        f"{own}_{part}": f"{same}_{part}"
        for own, same in _HISTOGRAMS.items()
        for part in ("bucket", "sum", "count")
    },
}
