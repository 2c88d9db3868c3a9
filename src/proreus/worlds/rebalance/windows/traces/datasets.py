"""The public datasets that are read as windows of requests."""

from __future__ import annotations

from types import MappingProxyType

from proreus.reading.catalogue import Dataset

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "windows/huawei": Dataset(
            what="Huawei-East-1's lifetimes as a stream of requests, for windows/huawei-serial and -parallel",
            licence="CC BY-NC 4.0 (Huawei): not for commercial use",
            files=("vms/huawei_east_1/Huawei-East-1-lt.csv",),
        ),
        "windows/monitor": Dataset(
            what="8 pods on 2 nodes of a small Kubernetes cluster, seen every five minutes for two days",
            licence="MIT",
            files=("vms/k8s_monitor_2022/pod_monitor_5min.csv",),
        ),
    }
)
