"""What placing or removing a pod changes, in one node of each lane: `state.placement` over tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.gather import add, at, put
from proreus.worlds.pods.training.device.columns import GONE, RUNNING, LaneState
from proreus.worlds.pods.training.device.tables import Tables


def bits_of(devices: Tensor, gpus: int) -> Tensor:
    """[.., G] int64, 1 for the devices of a bit mask."""
    return (devices[..., None] >> torch.arange(gpus, device=devices.device)) & 1


def place(tables: Tables, work: LaneState, where: Tensor, node: Tensor, devices: Tensor) -> None:
    """The pod at hand starts on the node, in the lanes where it is said; devices: bit masks [E]."""
    lanes, pods = work.lanes, work.pods
    pod = lanes.pod
    pace = at(tables.lanes.pace, node)
    end = lanes.clock + pace[:, 1] + at(pods.work, pod) / pace[:, 0]
    put(pods.status, pod, RUNNING, where)
    put(pods.node, pod, node, where)
    put(pods.devices, pod, devices, where)
    put(pods.since, pod, lanes.clock, where)
    put(pods.rank, pod, lanes.placements, where)
    put(pods.when, pod, end, where)
    lanes.placements = lanes.placements + where
    _shift(tables, work, pod, node, where.long())


def take_off(tables: Tables, work: LaneState, where: Tensor, pod: Tensor) -> None:
    """A running pod leaves its node, in the lanes where it is said."""
    node = at(work.pods.node, pod)
    put(work.pods.status, pod, GONE, where)
    _shift(tables, work, pod, node, -where.long())


def expect(tables: Tables, work: LaneState, pod_class: Tensor, sign: Tensor) -> None:
    """So many pods more that their budgets count on, whether they run or wait; sign: [E]."""
    if work.lanes.expected.shape[1]:
        counted = tables.classes.budgets[pod_class].long()
        work.lanes.expected = work.lanes.expected + sign[:, None] * counted


def _shift(tables: Tables, work: LaneState, pod: Tensor, node: Tensor, sign: Tensor) -> None:
    """Add (1) or subtract (-1) the pod on the node in every sum; 0: nothing."""
    nodes, lanes, classes = work.nodes, work.lanes, tables.classes
    c = at(work.pods.pod_class, pod)
    request = sign[:, None] * classes.request[c]
    add(nodes.free, node, -request)
    add(nodes.scored, node, sign[:, None] * classes.scoring[c])
    add(nodes.load, node, sign * classes.load[c])
    add(nodes.pods, node, sign)
    lanes.running = lanes.running + sign
    if lanes.healthy.shape[1]:
        lanes.healthy = lanes.healthy + sign[:, None] * classes.budgets[c].long()
    share = None
    if tables.gpus:
        held = bits_of(at(work.pods.devices, pod), tables.gpus)
        share = (sign * classes.gpu_milli[c])[:, None] * held
        add(nodes.left, node, -share)
    terms = nodes.matching.shape[1]
    selected = sign[:, None] * classes.selected[c].long()
    avoids = sign[:, None] * classes.avoids[c]
    if terms:
        domain = at(tables.lanes.domain.transpose(1, 2), node)[:, :, None]  # [E, T, 1]
        nodes.matching.scatter_add_(2, domain, selected[:, :, None])
        nodes.avoided.scatter_add_(2, domain, avoids[:, :, None])
    if tables.preemption:
        level = classes.level[c]
        _add_level(nodes.held, node, level, request)
        _add_level(nodes.held_pods, node, level, sign)
        if share is not None:
            _add_level(nodes.held_gpu, node, level, share)
        if terms:
            _add_level(nodes.held_matching, node, level, selected)
            _add_level(nodes.held_avoided, node, level, avoids)


def _add_level(column: Tensor, node: Tensor, level: Tensor, value: Tensor) -> None:
    """column: [E, N, L, ..]"""
    add(column.flatten(1, 2), node * column.shape[2] + level, value)
