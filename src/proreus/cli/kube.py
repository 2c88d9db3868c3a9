"""`proreus kube ACTION`: at work in somebody else's Kubernetes cluster."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from proreus.model.errors import UsageError, unknown_name

# action -> (module with `run(words)`, what it does)
ACTIONS: dict[str, tuple[str, str]] = {
    "scheduler": ("proreus.cli.kube_scheduler", "place the pods that name it, or only say where"),
    "shadow-report": ("proreus.cli.kube_shadow_report", "say what a shadow would have done otherwise"),
    "extender": ("proreus.cli.kube_extender", "answer kube-scheduler's HTTP extender calls"),
    "import": ("proreus.cli.kube_import", "make a cluster's own pods and nodes work to play again"),
    "explain": ("proreus.cli.kube_explain", "tell why a pod goes where, by any policy"),
    "rebalance": ("proreus.cli.kube_rebalance", "evict pods so that nodes become empty, or say which"),
    "scaler": ("proreus.cli.kube_scaler", "scale Deployments by any controller, without KEDA"),
    "report": ("proreus.cli.kube_report", "tell what another policy would have saved, in dollars"),
}
_EXAMPLE = "proreus kube scheduler --mode shadow --policy learned --record shadow"


def run(words: Sequence[str]) -> int:
    """Do what is asked in a cluster."""
    if not words or words[0] in ("-h", "--help"):
        _print_help()
        if words:
            raise SystemExit(0)
        raise UsageError(f"say what to do in the cluster: {', '.join(ACTIONS)}")
    action, *rest = words
    if action not in ACTIONS:
        raise unknown_name("action", action, ACTIONS)
    code: int = importlib.import_module(ACTIONS[action][0]).run(rest)
    return code


def _print_help() -> None:
    print("usage: proreus kube ACTION [--flags]\n")
    width = max(map(len, ACTIONS))
    for action, (_, does) in ACTIONS.items():
        print(f"  {action:<{width}}  {does}")
    print(f"\nEach has --help. Example: {_EXAMPLE}")
