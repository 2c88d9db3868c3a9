"""Recorded requests that the world `inference` knows by name."""

from __future__ import annotations

from types import MappingProxyType

from proreus.data.catalogue import Dataset
from proreus.data.remotes import GITHUB, published

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "azure": Dataset(
            what="19,366 conversations of one hour, Azure 2023 (cite Patel et al., Splitwise, ISCA 2024)",
            licence="CC-BY-4.0",
            files=("llm/azure2023/AzureLLMInferenceTrace_conv.csv",),
            home="https://github.com/Azure/AzurePublicDataset",
            remotes=published(
                f"{GITHUB}/Azure/AzurePublicDataset/b469a113cedca53ddc3bdea71a143dc4b7d8700c/data",
                "llm/azure2023",
                (
                    (
                        "AzureLLMInferenceTrace_conv.csv",
                        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
                        719_188,
                    ),
                ),
            ),
        ),
        "mooncake": Dataset(
            what="12,031 conversations of one hour with their prefixes, Mooncake",
            licence="Apache-2.0",
            files=("llm/mooncake/conversation_trace.jsonl",),
            home="https://github.com/kvcache-ai/Mooncake",
            remotes=published(
                f"{GITHUB}/kvcache-ai/Mooncake/3b5a594133958449a1feaf1c9e0fc1b553e34a28/FAST25-release/traces",
                "llm/mooncake",
                (
                    (
                        "conversation_trace.jsonl",
                        "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
                        3_029_533,
                    ),
                ),
            ),
        ),
        "servegen": Dataset(
            what="the load of a large service over 14 days, ServeGen; lengths are generated",
            licence="Apache-2.0",
            files=("llm/servegen/m-large/chunk-0-trace.csv",),
            home="https://github.com/alibaba/ServeGen",
        ),
    }
)
