"""Codes of the filters, in kube-scheduler's order, and which refusals preemption can cure."""

from __future__ import annotations

OK = 0
NODE_NAME = 1
NODE_UNSCHEDULABLE = 2
TAINTS = 3
NODE_AFFINITY = 4
NODE_PORTS = 5
RESOURCES = 6
RESOURCES_NEVER = 7
GPU_NEVER = 8
GPU = 9
SPREAD_KEY_MISSING = 10
SPREAD = 11
POD_AFFINITY = 12
POD_ANTI_AFFINITY = 13

# code -> (plugin, what it says, whether evicting pods could help)
FILTERS: dict[int, tuple[str, str, bool]] = {
    NODE_NAME: ("NodeName", "the pod asks for another node", False),
    NODE_UNSCHEDULABLE: ("NodeUnschedulable", "the node is cordoned", False),
    TAINTS: ("TaintToleration", "a taint is not tolerated", False),
    NODE_AFFINITY: ("NodeAffinity", "node selector or required affinity does not match", False),
    NODE_PORTS: ("NodePorts", "a host port is taken", True),
    RESOURCES: ("NodeResourcesFit", "not enough of a resource is free", True),
    RESOURCES_NEVER: ("NodeResourcesFit", "the node is too small even when empty", False),
    GPU_NEVER: ("Gpu", "wrong GPU model or too few devices", False),
    GPU: ("Gpu", "not enough devices with enough free share", True),
    SPREAD_KEY_MISSING: ("PodTopologySpread", "the node lacks the topology label", False),
    SPREAD: ("PodTopologySpread", "the skew would exceed its limit", True),
    POD_AFFINITY: ("InterPodAffinity", "no pod to be near to is in this domain", False),
    POD_ANTI_AFFINITY: ("InterPodAffinity", "a pod to keep away from is in this domain", True),
}

# The same as a table for kernels: may evicting pods cure this refusal?
CURABLE = tuple(code in FILTERS and FILTERS[code][2] for code in range(max(FILTERS) + 1))
