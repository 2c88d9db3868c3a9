"""An extender over an API server in memory, and what kube-scheduler would send to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from proreus.engine.scheduler.decider import GuardedPolicy
from proreus.kubeagents.cluster_view import ClusterView
from proreus.kubeagents.extender.answers import Bind, Extender, ExtenderOptions
from proreus.kubeagents.extender.messages import ExtenderArgs, NodeList, encode, read_args
from proreus.worlds.pods.policies.catalogue import PolicyOptions
from tests.kube.control_plane import node, pod

Object = dict[str, Any]


def told(view: ClusterView, *objects: Object) -> None:
    """As a reflector tells."""
    for obj in objects:
        metadata = obj["metadata"]
        if obj["kind"] != "Node":
            metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", f"uid-{metadata['name']}")
        view.told(obj["kind"], obj)


def small_view(sizes: Mapping[str, Mapping[str, str]], *objects: Object) -> ClusterView:
    """A view of nodes of these sizes, and whatever else there is."""
    view = ClusterView()
    told(view, *(node(name, size) for name, size in sizes.items()), *objects)
    return view


def waiting(name: str, requests: Mapping[str, str] | None = None, **more: Any) -> Object:
    """A pod that waits, with a uid."""
    made = pod(name, requests, **more)
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def running(name: str, where: str, requests: Mapping[str, str] | None = None, **more: Any) -> Object:
    """A pod on its node."""
    return waiting(name, requests, nodeName=where, **more)


def extender(
    view: ClusterView,
    policy: str = "best_fit",
    options: ExtenderOptions | None = None,
    bind: Bind | None = None,
    deadline: float = 30.0,
) -> Extender:
    """One that answers from this view."""
    guarded = GuardedPolicy(policy, PolicyOptions(kube_percentage=100, preempt=False), 0, deadline)
    return Extender(view, guarded, options, bind)


def by_names(asked: Object, names: Sequence[str]) -> ExtenderArgs:
    """What a kube-scheduler sends where the extender is nodeCacheCapable, through JSON and back."""
    return read_args(json.dumps({"Pod": asked, "Nodes": None, "NodeNames": list(names)}))


def by_nodes(asked: Object, nodes: Sequence[Object]) -> ExtenderArgs:
    """The same with whole nodes."""
    wire = {"Pod": asked, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}
    return read_args(json.dumps(wire))


def names_in(nodes: NodeList | None) -> list[str]:
    """Of the nodes of an answer."""
    return [item["metadata"]["name"] for item in json.loads(encode(nodes))["items"]]
