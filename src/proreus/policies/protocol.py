"""The one policy interface: an observation in, a decision out. Learning lives elsewhere.

Rules, networks, a remote service, a fallback chain and a class of one's own from outside the package are
interchangeable wherever a policy is asked for. `policies.plugins` makes a stranger's class one of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

Obs_contra = TypeVar("Obs_contra", contravariant=True)
Dec_co = TypeVar("Dec_co", covariant=True)


@dataclass(frozen=True)
class Verdict:
    """Why one place was or was not chosen."""

    place: str
    refused_by: str
    """The filter that refused and what it says; "" where the subject may go."""
    scores: dict[str, float]
    """Per score, after weighting; empty where the subject may not go or the place was not looked at."""
    total: float
    looked_at: bool = field(default=True, compare=False)
    """False where the policy did not get as far as this place."""


@dataclass(frozen=True)
class Explanation:
    """A decision with its reasons, place by place."""

    policy: str
    subject: str
    """What was decided about: a pod, a machine."""
    decision: Any
    """As the world's policies return it."""
    verdicts: tuple[Verdict, ...]
    note: str
    """What the table alone does not say: sampling, tie-break, preemption."""
    told: str = ""
    """The decision in words: "goes to node-3"."""
    chosen: str = ""
    """The place of the verdict that won, where one did."""
    place: str = ""
    """What the verdicts are about, where it is not the world's usual place: "move"."""
    amount: str = "total"
    """What the total of a verdict is: "wanted", of instances."""


class Policy(Protocol[Obs_contra, Dec_co]):
    """Decides, one question at a time."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    def decide(self, observation: Obs_contra, /) -> Dec_co:
        """What to do now."""
        ...

    def fresh(self, seed: int) -> Self:
        """The same policy without memory of other runs, drawing from that seed."""
        ...


@runtime_checkable
class Explains(Protocol[Obs_contra]):
    """What a policy may offer beside its decisions: --explain and /v1/decide ask for it."""

    def explain(self, observation: Obs_contra, /) -> Explanation:
        """The same decision with its reasons; asking changes nothing."""
        ...


@runtime_checkable
class Doubts(Protocol[Obs_contra]):
    """What a policy may offer where others stand in for it: a scaler's fallback asks for it."""

    def unsure(self, observation: Obs_contra, /) -> str:
        """Why this is beyond what it was made for; "": it is not."""
        ...


def remark_of(policy: object) -> str:
    """What a policy says of what it did, where it has a `remark`."""
    return str(getattr(policy, "remark", ""))
