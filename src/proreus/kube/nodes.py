"""A Kubernetes Node object as the model's `Node`.

Called by `manifests`, and by `k8ssim`, whose nodes are Node objects with timing fields added.
"""

from __future__ import annotations

from proreus.data.cursor import Entry
from proreus.kube.constraints import read_taint
from proreus.kube.pods import read_amounts, to_resources
from proreus.model.node import Node
from proreus.model.resources import GPU

GPU_MODEL_LABELS = ("proreus.io/gpu-model", "nvidia.com/gpu.product")
"""Labels that name the model of a node's GPUs; the first one present counts."""


def read_node(entry: Entry) -> Node:
    """The node: status.allocatable (else status.capacity), labels, taints and images."""
    status = entry.require("status")
    amounts = read_amounts(status, "allocatable" if status.find("allocatable") else "capacity")
    if not amounts:
        raise status.fail("a node states its allocatable resources or its capacity")
    gpus = amounts.pop(GPU, 0)
    labels = dict(entry.texts("metadata.labels"))
    models = [labels[name] for name in GPU_MODEL_LABELS if name in labels]
    return Node(
        name=entry.require("metadata.name").text(),
        allocatable=to_resources(amounts),
        gpu_count=gpus,
        gpu_model=models[0] if models and gpus else "",
        labels=tuple(sorted(labels.items())),
        taints=tuple(map(read_taint, entry.children("spec.taints"))),
        unschedulable=entry.truth_at("spec.unschedulable"),
        images=tuple(
            (name.text(), image.integer_at("sizeBytes", 0, maximum=2**62))
            for image in entry.children("status.images")
            for name in image.children("names")
        ),
    )
