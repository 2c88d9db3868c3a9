"""The public datasets that are read as windows of requests."""

from __future__ import annotations

from types import MappingProxyType

from proreus.data.catalogue import Dataset
from proreus.data.remotes import GITHUB, published

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "windows/huawei": Dataset(
            what="Huawei-East-1's lifetimes as a stream of requests, for windows/huawei-serial and -parallel",
            licence="CC BY-NC 4.0 (Huawei): not for commercial use",
            files=("vms/huawei_east_1/Huawei-East-1-lt.csv",),
            home="https://github.com/ChanTinPing/SPANE, from https://github.com/huaweicloud/VM-placement-dataset",
            remotes=published(
                f"{GITHUB}/ChanTinPing/SPANE/f1d7df9e9f717780513bded3fefd1c1d9484200c/data",
                "vms/huawei_east_1",
                (
                    (
                        "Huawei-East-1-lt.csv",
                        "2094a0c8a793b45c0698451a91a28e6a608447e6aeb439064b645c580dda8cd3",
                        3_056_573,
                    ),
                ),
            ),
        ),
        "windows/monitor": Dataset(
            what="8 pods on 2 nodes of a small Kubernetes cluster, seen every five minutes for two days",
            licence="MIT",
            files=("vms/k8s_monitor_2022/pod_monitor_5min.csv",),
            home="https://github.com/Nicola115/VMAgent, branch final: the output of "
            "vmagent/change_monitor_data_into_alibaba_format.ipynb",
        ),
    }
)
