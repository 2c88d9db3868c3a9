"""The words for kinds and objects."""

from __future__ import annotations

import pytest

from proreus.cli.cluster.resource_names import ObjectTarget, kinds_of, path_of, targets
from proreus.engine.objects.kinds import DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, SERVICE
from proreus.model.errors import UsageError


@pytest.mark.parametrize("word", ["pods", "pod", "po", "POD"])
def test_a_kind_has_several_words(word: str) -> None:
    assert kinds_of(word) == (POD,)


def test_groups_categories_and_lists() -> None:
    assert kinds_of("deployments.apps") == kinds_of("deploy") == (DEPLOYMENT,)
    assert kinds_of("po,deploy,pods") == (POD, DEPLOYMENT)
    assert kinds_of("all") == (POD, SERVICE, DEPLOYMENT, REPLICA_SET, JOB)


def test_objects_are_named_in_two_ways() -> None:
    assert targets(["pods", "a", "b"]) == [ObjectTarget(POD, "a"), ObjectTarget(POD, "b")]
    assert targets(["pod/a", "deploy/b"]) == [ObjectTarget(POD, "a"), ObjectTarget(DEPLOYMENT, "b")]
    assert targets(["nodes"]) == [ObjectTarget(NODE)]
    assert ObjectTarget(DEPLOYMENT, "web").shown == "deployment.apps/web"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name a kind: pods"),
        (["podz"], "unknown kind 'podz'; did you mean 'pods'"),
        (["pod/a", "b"], "'b' is not KIND/NAME"),
        (["pods/"], "is not KIND/NAME"),
        (["po,deploy", "a"], "names follow one kind"),
        (["all/a"], "name one kind"),
    ],
)
def test_words_that_mean_nothing(words: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        targets(words)


def test_paths_are_kubernetes_and_cannot_be_left() -> None:
    assert path_of(POD, "default", "a", "log") == "/api/v1/namespaces/default/pods/a/log"
    assert path_of(DEPLOYMENT, "x") == "/apis/apps/v1/namespaces/x/deployments"
    assert path_of(POD) == "/api/v1/pods"
    assert path_of(NODE, "ignored", "n") == "/api/v1/nodes/n"
    assert path_of(POD, "default", "../../x") == "/api/v1/namespaces/default/pods/..%2F..%2Fx"
