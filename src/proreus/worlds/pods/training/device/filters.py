"""Which nodes may take the pod at hand, and which could after an eviction: `state.legality` over tensors.

The domain behind the last holds nodes that lack the label: what is counted there stands for nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proreus.worlds.pods.training.device.columns import LaneState
from proreus.worlds.pods.training.device.tables import Tables


def legal_nodes(tables: Tables, work: LaneState, c: Tensor) -> Tensor:
    """bool[E, N]: nodes that may take a pod of class c, [E], as they are."""
    nodes, classes = work.nodes, tables.classes
    fits = classes.fits[c] & has_room(nodes.free, classes.request[c][:, None])
    if tables.gpus:
        fits = fits & has_devices(tables, nodes.left, c[:, None])
    if nodes.matching.shape[1]:
        domain = tables.lanes.domain
        fits = fits & ~in_the_way(
            tables, c, nodes.matching.gather(2, domain), nodes.avoided.gather(2, domain), domain
        )
    return fits


def evictable_nodes(tables: Tables, work: LaneState, c: Tensor) -> Tensor:
    """bool[E, N]: nodes that could take it, and hold pods of lower priority, without all of these.

    Of nodes that refuse the class as they are, those are the ones from which somebody can be evicted for it.
    """
    nodes, classes = work.nodes, tables.classes
    level = classes.level[c]
    there = lower_than(nodes.held_pods, level) > 0
    free = nodes.free + lower_than(nodes.held, level)
    fits = classes.evicts[c][:, None] & classes.fits[c] & there & has_room(free, classes.request[c][:, None])
    if tables.gpus:
        left = nodes.left + lower_than(nodes.held_gpu, level)
        fits = fits & has_devices(tables, left, c[:, None])
    if nodes.matching.shape[1]:
        domain = tables.lanes.domain
        matching = nodes.matching.gather(2, domain) - lower_than(nodes.held_matching, level).transpose(1, 2)
        avoided = nodes.avoided.gather(2, domain) - lower_than(nodes.held_avoided, level).transpose(1, 2)
        fits = fits & ~in_the_way(tables, c, matching, avoided, domain)
    return fits


def lower_than(held: Tensor, level: Tensor) -> Tensor:
    """The sum of a column [E, N, L, ..] over the levels below that of the lane, [E]."""
    levels = torch.arange(held.shape[2], device=held.device) < level[:, None]  # [E, L]
    wide = levels.reshape(levels.shape[0], 1, -1, *[1] * (held.dim() - 3))
    return (held * wide).sum(2)


def has_room(free: Tensor, request: Tensor) -> Tensor:
    """Whether every resource that is asked for is there; the last dimension is that of the resources."""
    return ((request <= free) | (request <= 0)).all(-1)


def has_devices(tables: Tables, left: Tensor, c: Tensor) -> Tensor:
    """Whether enough devices have enough left; left: [.., G], c: classes, of the shape before it."""
    num, milli = tables.classes.gpu_num[c], tables.classes.gpu_milli[c]
    # Devices that a node does not have hold nothing, and a share is more than that.
    return (left >= milli.clamp(min=1)[..., None]).sum(-1) >= num


def in_the_way(tables: Tables, c: Tensor, matching: Tensor, avoided: Tensor, domain: Tensor) -> Tensor:
    """bool[E, N]: required anti-affinity of the pod, or of pods there; counts and domains: [E, T, N]."""
    own = (tables.classes.avoids[c] > 0)[:, :, None] & (matching > 0)
    others = tables.classes.selected[c][:, :, None] & (avoided > 0)
    return ((own | others) & (domain < tables.domains)).any(1)


def tightest_devices(left: Tensor, num: Tensor, milli: Tensor) -> Tensor:
    """bool[.., G]: the `num` devices with least left that still fit; ties go to the lowest index.

    num, milli: of the shape before the devices. Where too few fit, those that do.
    """
    gpus = left.shape[-1]
    places = torch.arange(gpus, device=left.device)
    fits = left >= milli.clamp(min=1)[..., None]
    key = torch.where(fits, left * gpus + places, 1 << 40)
    before = (key[..., None, :] < key[..., None]).sum(-1)
    return fits & (before < num[..., None])
