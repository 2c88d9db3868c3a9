"""A decision asked for in named fields: the JSON of /v1/decide, its request and its answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from proreus.serving.cluster_api.changes import BudgetWire, Change
from proreus.serving.cluster_api.schema import MOST_NODES, MOST_PODS, NodeWire, PodWire, Strict


class DecideRequest(Strict, frozen=True):
    """A cluster of any size, and the pod to decide about.

    The cluster is described anew (`nodes`), or it is one that the service keeps (`session`), as of a
    generation, with what has changed since.
    """

    pod: Annotated[PodWire | None, Meta(description="null, with a session: only take note.")] = None
    nodes: Annotated[list[NodeWire], Meta(max_length=MOST_NODES)] = field(default_factory=list)
    waiting: Annotated[int, Meta(ge=0, le=2**31, description="Other pods that wait for a node.")] = 0
    explain: Annotated[bool, Meta(description="Whether to answer with reasons, node by node.")] = True
    budgets: list[BudgetWire] = field(default_factory=list)
    keep: Annotated[
        bool, Meta(description="Keep this cluster; the answer says its session and generation.")
    ] = False
    session: Annotated[str, Meta(max_length=64, description="A cluster that is kept.")] = ""
    generation: Annotated[
        int, Meta(ge=0, le=2**62, description="Of the session, as the last answer had it.")
    ] = 0
    changes: Annotated[
        list[Change], Meta(max_length=MOST_PODS, description="Since that generation, in their order.")
    ] = field(default_factory=list)
    bind: Annotated[
        bool, Meta(description="With a session: take the decision as carried out, victims gone.")
    ] = False


class VerdictWire(Struct, frozen=True):
    """Why one node was or was not chosen."""

    node: str
    refused_by: str
    scores: dict[str, float]
    total: float


class DecideAnswer(Struct, frozen=True, omit_defaults=True):
    """What to do with the pod."""

    decision: Annotated[
        Literal["place", "preempt", "delay", "reject", "none"],
        Meta(description="none: no pod was asked about."),
    ]
    node: str | None
    action: Annotated[int, Meta(description="The same in numbers: see /predict.")]
    devices: Annotated[list[int], Meta(description="GPUs to use, by index; empty: the tightest that fit.")]
    victims: Annotated[list[str], Meta(description="Pods to evict first.")]
    policy: str
    decided_by: Literal["policy", "rule"]
    note: str
    verdicts: list[VerdictWire] | None
    session: Annotated[str, Meta(description="Where the cluster is kept: what to ask by.")] = ""
    generation: Annotated[int, Meta(description="Of the session, after this request.")] = 0
