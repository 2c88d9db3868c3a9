"""`proreus kube explain POD`: why a pod goes where, in a cluster that runs, by any policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.explanation_tables import explanation_tables
from proreus.cli.kube_arguments import ClusterArguments, client_maker
from proreus.cli.output import new_console, waiting, write_json
from proreus.model.errors import UsageError

_DESCRIPTION = """Tells for a pod which nodes may not take it, how the others score, and who came next.

A pod that runs is decided about as if it came now. Nothing is written to the cluster.

Example: proreus kube explain web-6d4c9-x2x1z --namespace shop --policy kube"""


@dataclass(frozen=True)
class ExplainArguments:
    """Flags of `proreus kube explain`."""

    namespace: str = "default"
    """Of the pod."""
    policy: str = "kube"
    """By whose reasons: a rule, learned, a checkpoint."""
    cluster: ClusterArguments = field(default_factory=ClusterArguments)
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Tell."""
    if not words or words[0].startswith("-"):
        parse(ExplainArguments, "proreus kube explain POD", words, _DESCRIPTION)
        raise UsageError("name a pod")
    name, *rest = words
    arguments = parse(ExplainArguments, "proreus kube explain POD", rest, _DESCRIPTION)
    prepare(arguments.common)
    make_client = client_maker(arguments.cluster, "explain")
    from proreus.kubeagents.cluster_view import ClusterView
    from proreus.kubeagents.follower import Follower
    from proreus.kubeagents.judge.explain import explain_pod
    from proreus.worlds import world
    from proreus.worlds.pods.policies.catalogue import PolicyOptions, kube_version_of, make_policy

    make_policy(arguments.policy, PolicyOptions(), arguments.common.seed)  # a wrong name costs no listing
    console = new_console(arguments.common)
    view = ClusterView()
    follower = Follower(make_client, view.hear)
    with waiting(console, "listing the cluster"):
        follower.start()
        try:
            follower.wait_synced()
            _, minor = follower.call(lambda client: client.discovery.version())
        finally:
            follower.stop()
    options = PolicyOptions(kube_percentage=100, kube_version=kube_version_of(minor))
    policy = make_policy(arguments.policy, options, arguments.common.seed)
    story = explain_pod(view, arguments.namespace, name, policy)
    for table in explanation_tables(story.explanation, None, world("pods").words, console.width):
        console.print(table)
    console.print(story.told, soft_wrap=True, highlight=False)
    if arguments.policy in ("kube", "kube_plus"):
        console.print(
            f"by the rules of kube-scheduler {options.kube_version}; the server is 1.{minor}",
            soft_wrap=True,
            highlight=False,
        )
    verdicts = [
        {"node": one.place, "refused_by": one.refused_by, "scores": one.scores, "total": one.total}
        for one in story.explanation.verdicts
    ]
    write_json(
        arguments.common,
        {
            "pod": f"{arguments.namespace}/{name}",
            "policy": story.explanation.policy,
            "kube_version": options.kube_version,
            "decision": story.explanation.told,
            "chosen": story.explanation.chosen,
            "node": story.node,
            "told": story.told,
            "verdicts": verdicts,
        },
    )
    return 0
