"""The public datasets that are work for this world."""

from __future__ import annotations

from types import MappingProxyType

from proreus.data.catalogue import Dataset

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "azure2021": Dataset(
            what="199 invocations of the Azure Functions trace of 2021",
            licence="CC-BY (AzurePublicDataset); the sample MIT (vhive-serverless/invitro)",
            files=("functions/azure2021_sample/Azure2021_200.csv",),
            home="https://github.com/vhive-serverless/invitro, from https://github.com/Azure/AzurePublicDataset",
        ),
        "azure2019": Dataset(
            what="example rows in the form of the Azure Functions trace of 2019",
            licence="MIT (vhive-serverless/invitro); the rows are synthetic",
            files=(
                "functions/azure2019_example/invocations.csv",
                "functions/azure2019_example/durations.csv",
                "functions/azure2019_example/memory.csv",
            ),
            home="https://github.com/vhive-serverless/invitro",
        ),
    }
)
