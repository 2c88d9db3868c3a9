"""What the kernels are handed: columns by name, and sizes that are known when a kernel is compiled.

Letters as in `device.tables`. Lengths of short rows are rounded up to powers of two (`wide_..`) for Triton.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import fields, replace
from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch.nn.functional import pad

from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.training.device.columns import LaneColumns, LaneState, NodeColumns, PodColumns
from proreus.worlds.pods.training.device.events import LaneRules
from proreus.worlds.pods.training.device.tables import (
    STATIC_CONTEXT,
    ClassTables,
    LaneTables,
    Pods,
    Tables,
    TypicalTables,
)

_POD_BLOCK, _MANY_PODS, _LARGE_POD_BLOCK = 64, 4_096, 128
_NODE_BLOCK, _FLAT_BLOCK = 32, 128


class Sizes(NamedTuple):
    """Constants of the kernels; `sizes_of` makes each a `tl.constexpr`."""

    pods: int
    nodes: int
    resources: int
    gpus: int
    classes: int
    """Of all workloads, rounded up."""
    levels: int
    terms: int
    domains: int
    budgets: int
    groups: int
    thresholds: int
    halvings: int
    """Steps of a search among the thresholds."""
    features: int
    context: int
    static_context: int
    wide_resources: int
    wide_gpus: int
    wide_terms: int
    wide_budgets: int
    wide_context: int
    pod_block: int
    """Pods that are looked at together."""
    node_block: int
    flat_block: int
    ends: bool
    preemption: bool
    completion: bool
    redraw: bool
    may_delay: bool
    may_reject: bool
    drop_failures: bool
    backs_off: bool
    """Whether any pod waits for the end of a back-off."""
    requeue_evicted: bool
    skip_backoff: bool
    attempt_limit: int
    events: int
    """That may happen in a lane between two looks."""


_ROOM, _LARGE_ROOM, _CLASSES_WIDE, _GROUPS_WIDE, _THRESHOLDS_WIDE = 256, 4_096, 256, 4, 32
"""What sizes that differ from one draw of pods to the next are rounded up to a multiple of: kernels that
were compiled for one are good for all of them."""

_NO_CPU = 1 << 50  # more than any node has; `pad` takes numbers that are exact in double precision


def room_for(tables: Tables) -> int:
    """For how many pods of a lane columns are made."""
    pods = int(tables.pods.episode.max())
    return _rounded(pods, _ROOM if pods < _LARGE_ROOM else _LARGE_ROOM)


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def widened(tables: Tables) -> Tables:
    """The same tables with room that means nothing: classes nobody has, groups that no node hosts, thresholds
    that no CPU reaches."""
    typical, excludes = tables.typical, tables.classes.excludes
    groups = _rounded(typical.num.shape[1], _GROUPS_WIDE) - typical.num.shape[1]
    beyond = _rounded(typical.threshold.shape[0], _THRESHOLDS_WIDE) - typical.threshold.shape[0]
    return replace(
        tables,
        classes=replace(
            tables.classes,
            excludes=pad(excludes, (0, _rounded(excludes.shape[1], _CLASSES_WIDE) - excludes.shape[1])),
        ),
        typical=replace(
            typical,
            num=pad(typical.num, (0, groups), value=GPU_WHOLE),
            milli=pad(typical.milli, (0, groups), value=GPU_WHOLE),
            threshold=pad(typical.threshold, (0, beyond), value=_NO_CPU),
            mass=pad(typical.mass, (0, beyond, 0, groups)),
            whole=pad(typical.whole, (0, groups)),
        ),
    )


def sizes_of(tables: Tables, rules: LaneRules, state: LaneState, events: int) -> Sizes:
    """Of a batch of lanes."""
    pods, nodes = state.pods.status.shape[1], tables.lanes.allocatable.shape[1]
    resources, terms = tables.classes.request.shape[1], tables.lanes.domain.shape[1]
    budgets = tables.lanes.allowed.shape[1]
    thresholds = tables.typical.threshold.shape[0]
    options, wide = rules.options, _power_of_two
    return _constant(
        Sizes(
            pods=pods,
            nodes=nodes,
            resources=resources,
            gpus=tables.gpus,
            classes=tables.classes.excludes.shape[1],
            levels=tables.levels,
            terms=terms,
            domains=tables.domains,
            budgets=budgets,
            groups=tables.typical.num.shape[1],
            thresholds=thresholds,
            halvings=thresholds.bit_length(),
            features=len(PAIR_FEATURES),
            context=len(CONTEXT_FEATURES),
            static_context=STATIC_CONTEXT,
            wide_resources=wide(resources),
            wide_gpus=wide(tables.gpus),
            wide_terms=wide(terms),
            wide_budgets=wide(budgets),
            wide_context=wide(len(CONTEXT_FEATURES)),
            pod_block=min(wide(pods), _POD_BLOCK if pods < _MANY_PODS else _LARGE_POD_BLOCK),
            node_block=min(wide(nodes), _NODE_BLOCK),
            flat_block=_FLAT_BLOCK,
            ends=tables.ends,
            preemption=tables.preemption,
            completion=rules.completion,
            redraw=rules.redraw,
            may_delay=rules.may_delay,
            may_reject=rules.may_reject,
            drop_failures=options.drop_failures,
            backs_off=not options.drop_failures or rules.may_delay,
            requeue_evicted=options.requeue_evicted,
            skip_backoff=options.skip_backoff_when_idle,
            attempt_limit=options.attempt_limit,
            events=events,
        )
    )


def _constant(sizes: Sizes) -> Sizes:
    """Each of them a constant of Triton's, which the shapes of blocks have to be."""
    return Sizes(*(tl.constexpr(size) for size in sizes))


def _power_of_two(size: int) -> int:
    return int(triton.next_power_of_2(max(size, 1)))


def _named(kind: type) -> Any:
    """A tuple with the names of a dataclass: what a kernel takes."""
    return namedtuple(kind.__name__, [field.name for field in fields(kind)])


_PODS, _NODES, _LANES = _named(PodColumns), _named(NodeColumns), _named(LaneColumns)
_BASE, _CLASSES, _OF, _TYPICAL = _named(Pods), _named(ClassTables), _named(LaneTables), _named(TypicalTables)


class Columns(NamedTuple):
    """Everything that the kernels read and write, by name."""

    pods: Any
    nodes: Any
    lanes: Any
    base: Any
    """The pods that episodes are drawn from."""
    classes: Any
    of: Any
    """Tables by lane."""
    typical: Any
    lot: Any


def columns_of(tables: Tables, state: LaneState) -> Columns:
    """The tensors of a batch of lanes, where they are."""

    def row(kind: Any, columns: Any) -> Any:
        return kind(*(getattr(columns, name) for name in kind._fields))

    return Columns(
        pods=row(_PODS, state.pods),
        nodes=row(_NODES, state.nodes),
        lanes=row(_LANES, state.lanes),
        base=row(_BASE, tables.pods),
        classes=row(_CLASSES, tables.classes),
        of=row(_OF, tables.lanes),
        typical=row(_TYPICAL, tables.typical),
        lot=tables.lot,
    )
