"""The metrics of vLLM's servers: their names, labels and the bounds of their histograms."""

from __future__ import annotations

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
KV_USE = "vllm:kv_cache_usage_perc"
"""From 0 to 1, whatever its name says."""
PREEMPTIONS = "vllm:num_preemptions"
PROMPT_TOKENS = "vllm:prompt_tokens"
OUTPUT_TOKENS = "vllm:generation_tokens"
ENDED = "vllm:request_success"
TTFT = "vllm:time_to_first_token_seconds"
TBT = "vllm:request_time_per_output_token_seconds"
E2E = "vllm:e2e_request_latency_seconds"
QUEUE_TIME = "vllm:request_queue_time_seconds"
PREFIX_QUERIES, PREFIX_HITS = "vllm:prefix_cache_queries", "vllm:prefix_cache_hits"
"""Tokens of prompts that were looked up in a replica's prefix cache, and those of them that it knew."""
EXTERNAL_HITS = "vllm:external_prefix_cache_hits"
"""Tokens that it did not know, and another store of KV memory did."""
HIT_RATE = "vllm:gpu_prefix_cache_hit_rate"
"""Of engines before they counted; -1 where they have no cache."""
EARLIER_NAMES = {
    "vllm:gpu_cache_usage_perc": KV_USE,
    "vllm:gpu_prefix_cache_queries_total": f"{PREFIX_QUERIES}_total",
    "vllm:gpu_prefix_cache_hits_total": f"{PREFIX_HITS}_total",
}
"""What older servers call the same series."""
PROCESS_CPU = "process_cpu_seconds_total"
"""Not vLLM's own: Prometheus' client adds it, and it grows with every answer."""

MODEL_LABEL, ENGINE_LABEL, REASON_LABEL = "model_name", "engine", "finished_reason"

TTFT_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0, 160.0, 640.0, 2560.0),
)  # fmt: skip
TBT_BOUNDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0),
    80.0,
)  # fmt: skip
REQUEST_BOUNDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)  # fmt: skip
"""Of all histograms over whole requests: from end to end, in the queue, in the engine."""
