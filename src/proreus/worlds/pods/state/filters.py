"""Codes of the filters, in kube-scheduler's order, and which refusals preemption can cure."""

from __future__ import annotations

OK = 0
NODE_NOT_NAMED = 1
VOLUME_CLAIM = 2
NODE_UNSCHEDULABLE = 3
NODE_NAME = 4
TAINTS = 5
NODE_AFFINITY = 6
NODE_PORTS = 7
RESOURCES = 8
RESOURCES_NEVER = 9
GPU_NEVER = 10
GPU = 11
SPREAD_KEY_MISSING = 12
SPREAD = 13
POD_AFFINITY = 14
POD_ANTI_AFFINITY = 15
EXISTING_ANTI_AFFINITY = 16

# code -> (plugin, what it says, whether evicting pods could help)
FILTERS: dict[int, tuple[str, str, bool]] = {
    # These two are settled before any node is looked at.
    NODE_NOT_NAMED: ("NodeAffinity", "required affinity names other nodes", False),
    VOLUME_CLAIM: ("VolumeRestrictions", "a volume claim of the pod does not exist", False),
    NODE_UNSCHEDULABLE: ("NodeUnschedulable", "the node is cordoned", False),
    NODE_NAME: ("NodeName", "the pod asks for another node", False),
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
    EXISTING_ANTI_AFFINITY: ("InterPodAffinity", "a pod that keeps away from it is in this domain", True),
}

# The same as a table for kernels: may evicting pods cure this refusal?
CURABLE = tuple(code in FILTERS and FILTERS[code][2] for code in range(max(FILTERS) + 1))
