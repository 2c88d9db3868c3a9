"""The arrays of a cluster. Letters in shape comments:

N nodes, R resource columns, G most GPUs on a node, P pods, C pod classes (equal specs),
S constraint shapes (equal static constraints), T pod-selecting terms, K topology keys,
D most domains of a key, B disruption budgets, Q host ports, M typical GPU demands.

Ragged lists are stored flat with offsets: entries of item i are flat[start[i]:start[i+1]].
"""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I8, I64, Bool
from proreus.kernels.structs import packable


@packable
class Nodes(NamedTuple):
    """What never changes about the nodes."""

    allocatable: I64  # [N, R]
    gpu_count: I64  # [N]
    gpu_model: I64  # [N] index into the sorted model names, -1 without GPUs
    domain: I64  # [K, N] domain of the node under each topology key, -1 when it lacks the label
    domains: I64  # [K] number of domains per key
    hostname_key: I64  # [1] the key whose domains are single nodes
    visit_order: I64  # [N] kube-scheduler's order: round robin over zones
    pace: F64  # [N, 6] the fields of `Pace` in order


@packable
class Classes(NamedTuple):
    """What never changes about the pod classes."""

    request: I64  # [C, R] one pod slot included
    scoring: I64  # [C, 2] cpu, memory of a placed pod as kube scores them
    scoring_incoming: I64  # [C, 2] the same for the pod that is being placed
    gpu_num: I64  # [C]
    gpu_milli: I64  # [C] per device
    gpu_kind: I64  # [C] 0 shares a device, k asks for k whole devices, -1 no GPU
    shape: I64  # [C] -> S
    priority: I64  # [C]
    may_preempt: Bool  # [C]
    load: F64  # [C, 2] measured cpu: mean and variance, in milli and milli^2
    cpu_limit: I64  # [C] milli, 0 when none is stated
    load_guess: F64  # [C] cpu milli that load-aware scoring expects of a pod not yet measured
    port_start: I64  # [C+1]
    port: I64  # [..] -> Q
    epoch: I64  # [C] goes up where the row is given to another spec: a cache of the row then starts over


@packable
class Shapes(NamedTuple):
    """Constraints and preferences that depend on the node alone, not on what runs there."""

    blocked: I8  # [S, N] 0 or the code of the first filter that refuses
    repelled: I64  # [S, N] untolerated PreferNoSchedule taints
    preferred: I64  # [S, N] weight of matching preferred node-affinity terms
    has_preferred: Bool  # [S]
    image: I64  # [S, N] ImageLocality score 0..100
    image_mounted: I64  # [S, N] the same with image volumes, as from 1.36 on; [0, N] where no pod has any
    allowed: Bool  # [S, N] node selector and required affinity match
    tolerated: Bool  # [S, N] no taint keeps the pod away
    narrowed: Bool  # [S] kube-scheduler looks at some nodes only: those that the pod names, or none
    named_start: I64  # [S+1]
    named: I64  # [..] those nodes, in visiting order


@packable
class Terms(NamedTuple):
    """Pod-selecting terms, and which class uses which."""

    key: I64  # [T] -> K
    selects: Bool  # [T, C]
    need_start: I64  # [C+1] required affinity; such a term selects pods that match ALL of the class's terms
    need: I64
    self_sufficient: Bool  # [C] the class matches its own required affinity
    avoid_start: I64  # [C+1] required anti-affinity
    avoid: I64
    like_start: I64  # [C+1] preferred (anti-)affinity, weight negative for anti
    like: I64
    like_weight: I64
    draw_start: (
        I64  # [C+1] terms a placed pod of the class exerts on others: preferred, and required at weight 1
    )
    draw: I64
    draw_weight: I64
    feel_start: I64  # [C+1] terms drawn by some class that select this class
    feel: I64
    shun_start: I64  # [C+1] terms avoided by some class that select this class
    shun: I64
    spread_start: I64  # [C+1]
    spread: I64  # term of the constraint
    spread_skew: I64
    spread_min_domains: I64
    spread_hard: Bool
    spread_default: Bool
    spread_affinity: Bool  # nodes that are not `allowed` do not count
    spread_taints: Bool  # nodes that are not `tolerated` do not count
    spread_self: Bool  # the class matches the constraint's selector


@packable
class Ports(NamedTuple):
    """Host ports and which of them exclude each other."""

    conflict: Bool  # [Q, Q]


@packable
class Budgets(NamedTuple):
    selects: Bool  # [B, C]
    min_available: I64  # [B] -1 when the bound is max_unavailable
    max_unavailable: I64  # [B] -1 when the bound is min_available
    allowed: I64  # [B] told by whoever keeps the budget, -1 when nobody does


@packable
class Typical(NamedTuple):
    """The demand that fragmentation is measured against: the most frequent specs, 95 % of the pods."""

    model_start: I64  # [models + 2] groups that a node of model m may host; slot 0 is "no GPU"
    num: I64  # per group
    milli: I64  # per group
    cpu_start: I64  # [groups + 1]
    cpu: I64  # cpu needs of the group, ascending
    mass: F64  # cumulative share of all pods, aligned with cpu


@packable
class Cluster(NamedTuple):
    """Everything that does not change during a run."""

    nodes: Nodes
    classes: Classes
    shapes: Shapes
    terms: Terms
    ports: Ports
    budgets: Budgets
    typical: Typical
    pod_class: I64  # [P] -> C


@packable
class State(NamedTuple):
    """Everything that changes when a pod is placed or removed."""

    free: I64  # [N, R]
    gpu_left: I64  # [N, G] milli
    scored: I64  # [N, 2] cpu, memory in use as kube scores them
    load: F64  # [N, 2] measured cpu: mean and variance
    kinds: I64  # [N, G+1] pods per GPU kind
    fragment: F64  # [N] expected milli-GPU that typical pods cannot use
    ports_used: I64  # [Q, N]
    matching: I64  # [T, N] pods selected by the term, per node
    matching_in: I64  # [T, D] the same per domain of the term's key
    matching_all: I64  # [T] the same over nodes that have the key
    avoided_in: I64  # [T, D] pods that avoid the term (required anti-affinity)
    drawn_in: I64  # [T, D] summed weight of pods that exert the term
    healthy: I64  # [B] running pods per budget
    expected: I64  # [B] running and waiting pods per budget, where somebody keeps count of those that wait
    pod_node: I64  # [P] -1 when not placed
    pod_devices: I64  # [P] bit mask
    pod_since: F64  # [P] time of the last placement
    pod_rank: I64  # [P] sequence number of the last placement
    first: I64  # [N] head of the node's list of pods, -1 empty
    following: I64  # [P]
    preceding: I64  # [P]
    changed: I64  # [L] ring of nodes in the order they changed
    counts: I64  # [2] number of changes so far, number of placements so far


@packable
class Scratch(NamedTuple):
    """Working space of one decision, so that the hot path allocates nothing."""

    spread_count: I64  # [H, D] matching pods per domain for each hard constraint of the class at hand
    spread_min: I64  # [H]
    nodes: I64  # [N] a list of nodes
    pods: I64  # [P] a list of pods
    flags: I8  # [P]
    taken: I64  # [B] disruptions charged to each budget
