"""Why a pod of a cluster goes where, by any policy that gives reasons: filters, scores and who came next."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.kubeagents.cluster_view import ClusterView
from proreus.model.errors import InputError, UsageError
from proreus.policies.protocol import Explains, Explanation
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.state.observation import PodObservation


@dataclass(frozen=True)
class Story:
    """A decision about one pod."""

    explanation: Explanation
    observation: PodObservation
    node: str
    """Where the pod really is; "": it waits."""

    @property
    def told(self) -> str:
        """In one or two sentences."""
        ranked = sorted(
            (
                verdict
                for verdict in self.explanation.verdicts
                if not verdict.refused_by and verdict.looked_at
            ),
            key=lambda verdict: (verdict.place != self.explanation.chosen, -verdict.total, verdict.place),
        )
        refused = sum(bool(verdict.refused_by) for verdict in self.explanation.verdicts)
        parts = [f"{self.explanation.subject} {self.explanation.told}"]
        scored = any(verdict.scores for verdict in ranked)
        if self.explanation.chosen and len(ranked) > 1 and scored:
            first, second = ranked[:2]
            parts.append(f"it scored {first.total:g}, next came {second.place} with {second.total:g}")
        parts.append(f"{refused} of {len(self.explanation.verdicts)} nodes may not take it")
        if self.node and self.explanation.chosen and self.explanation.chosen != self.node:
            parts.append(f"it really is on {self.node}")
        elif self.node:
            parts.append("that is where it is")
        return "; ".join(parts)


def explain_pod(view: ClusterView, namespace: str, name: str, policy: PodPolicy) -> Story:
    """The decision about a pod as if it came now, without itself on its node."""
    if not isinstance(policy, Explains):
        raise UsageError(f"policy {policy.name!r} gives no reasons")
    key = f"{namespace}/{name}"
    with view.lock:
        known = view.known.get(key)
        if known is None:
            raise InputError(f"there is no pod {name!r} in the namespace {namespace!r} that runs or waits")
        if known.trouble:
            raise InputError(f"pod {key}: {known.trouble}")
        if not view.cluster.node_names():
            raise InputError("the cluster has no node")
        was = view.take_off(key)
        observation = view.observe(known.object)
        return Story(policy.explain(observation), observation, was)
