"""Recorded requests that the world `inference` knows by name."""

from __future__ import annotations

from proreus.reading.catalogue import Dataset

DATASETS = {
    "azure": Dataset(
        "19,366 conversations of one hour, Azure 2023 (cite Patel et al., Splitwise, ISCA 2024)",
        "CC-BY-4.0",
        ("llm/azure2023/AzureLLMInferenceTrace_conv.csv",),
    ),
    "mooncake": Dataset(
        "12,031 conversations of one hour with their prefixes, Mooncake",
        "Apache-2.0",
        ("llm/mooncake/conversation_trace.jsonl",),
    ),
    "servegen": Dataset(
        "the load of a large service over 14 days, ServeGen; lengths are generated",
        "Apache-2.0",
        ("llm/servegen/m-large/chunk-0-trace.csv",),
    ),
}
