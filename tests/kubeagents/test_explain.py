"""Why a pod goes where, over a cluster in memory."""

from __future__ import annotations

import pytest

from proreus.kubeagents.judge.explain import explain_pod
from proreus.model.errors import InputError, UsageError
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from tests.kube.control_plane import node
from tests.kubeagents.extender_scene import running, small_view, told, waiting

_TWO = {"large": {"cpu": "16"}, "small": {"cpu": "2"}}
_KUBE = make_policy("kube", PolicyOptions(kube_percentage=100), 0)


def test_a_pod_that_waits_is_told_with_filters_scores_and_the_next() -> None:
    view = small_view(_TWO, waiting("web", {"cpu": "1"}))
    told(view, node("closed", unschedulable=True))
    story = explain_pod(view, "default", "web", _KUBE)
    assert story.node == "" and story.explanation.chosen == "large"
    assert "goes to large" in story.told and "next came small" in story.told
    assert "1 of 3 nodes may not take it" in story.told


def test_a_pod_that_runs_is_asked_about_without_itself() -> None:
    view = small_view(_TWO, running("web", "small", {"cpu": "2"}))
    story = explain_pod(view, "default", "web", make_policy("best_fit", PolicyOptions(), 0))
    assert story.node == "small" and story.explanation.chosen == "small"
    assert "that is where it is" in story.told
    other = explain_pod(small_view(_TWO, running("web", "small", {"cpu": "1"})), "default", "web", _KUBE)
    assert "it really is on small" in other.told


def test_what_cannot_be_explained_is_told() -> None:
    view = small_view(_TWO, waiting("web"))
    with pytest.raises(InputError, match="no pod 'gone'"):
        explain_pod(view, "default", "gone", _KUBE)
    broken = waiting("broken")
    broken["spec"]["resourceClaims"] = [{"name": "dra"}]
    told(view, broken)
    with pytest.raises(InputError, match="resourceClaims"):
        explain_pod(view, "default", "broken", _KUBE)

    class Mute:
        name = "mute"

    with pytest.raises(UsageError, match="gives no reasons"):
        explain_pod(view, "default", "web", Mute())  # type: ignore[arg-type]
