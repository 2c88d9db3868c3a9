"""What an extender answers, whatever is asked: never more than kube-scheduler allowed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.engine.scheduler.decider import GuardedPolicy
from proreus.kubeagents.extender.answers import Extender, ExtenderOptions
from proreus.kubeagents.extender.messages import (
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    MetaPod,
    MetaVictims,
    Victims,
    encode,
)
from proreus.kubeagents.extender.scores import BEST, NEXT, priorities
from proreus.model.errors import InputError, WorkError
from proreus.worlds.pods.policies.catalogue import PolicyOptions
from proreus.worlds.pods.policies.wire_format import pod_strangers
from tests.kube.control_plane import node
from tests.kubeagents.extender_scene import (
    by_names,
    by_nodes,
    extender,
    names_in,
    running,
    small_view,
    told,
    waiting,
)

_TWO = {"large": {"cpu": "16"}, "small": {"cpu": "2"}}
_GPU = {"nvidia.com/gpu": "1", "cpu": "8"}
_SHARED = {"proreus.io/gpu-milli": "600", "proreus.io/gpu-count": "1"}


def _scores(scored: Any) -> dict[str, int]:
    return {one.Host: one.Score for one in scored.priorities}


def test_the_policy_chooses_among_the_nodes_that_are_asked_about() -> None:
    asked = waiting("web", {"cpu": "1"})
    found = extender(small_view(_TWO, asked)).prioritize(by_names(asked, ["large", "small"]))
    assert found.neutral == ""
    assert _scores(found) == {"large": 0, "small": BEST}  # the tighter fit
    alone = extender(small_view(_TWO, asked)).prioritize(by_names(asked, ["large"]))
    assert _scores(alone) == {"large": BEST}


def test_names_on_the_wire_are_those_of_go() -> None:
    asked = waiting("web")
    made = extender(small_view(_TWO, asked))
    filtered = json.loads(encode(made.filter(by_names(asked, ["large", "small"]))))
    assert filtered == {
        "Nodes": None,
        "NodeNames": ["large", "small"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    scored = json.loads(encode(made.prioritize(by_names(asked, ["large"])).priorities))
    assert scored == [{"Host": "large", "Score": 10}]


def test_whole_nodes_come_back_as_they_went() -> None:
    view = small_view({"gpu": _GPU, "plain": {}})
    asked = waiting("share", annotations=_SHARED)
    nodes = [node("gpu", _GPU, labels={"kept": "yes"}), node("plain")]
    filtered = extender(view).filter(by_nodes(asked, nodes))
    assert filtered.NodeNames is None and names_in(filtered.Nodes) == ["gpu"]
    assert json.loads(encode(filtered.Nodes))["items"][0] == nodes[0]
    assert list(filtered.FailedAndUnresolvableNodes) == ["plain"]


def test_shares_of_gpus_that_are_taken_are_refused_and_may_be_preempted() -> None:
    there = running("first", "gpu", {"cpu": "1"}, annotations=_SHARED)
    view = small_view({"gpu": _GPU}, there)
    asked = waiting("second", annotations=_SHARED)
    filtered = extender(view).filter(by_names(asked, ["gpu"]))
    assert filtered.NodeNames == []
    assert filtered.FailedNodes == {"gpu": "Gpu: not enough devices with enough free share"}


def test_what_kube_scheduler_knows_itself_is_left_to_it() -> None:
    full = running("full", "small", {"cpu": "2"})
    asked = waiting("web", {"cpu": "1"})
    names = by_names(asked, ["large", "small"])
    assert extender(small_view(_TWO, full)).filter(names).NodeNames == ["large", "small"]
    strict = extender(small_view(_TWO, full), options=ExtenderOptions(filters="all")).filter(names)
    assert strict.NodeNames == ["large"] and list(strict.FailedNodes) == ["small"]


def test_a_node_nobody_has_heard_of_is_not_refused() -> None:
    asked = waiting("web")
    made = extender(small_view(_TWO, asked), options=ExtenderOptions(filters="all"))
    args = by_names(asked, ["large", "new"])
    assert made.filter(args).NodeNames == ["large", "new"]
    assert _scores(made.prioritize(args)) == {"large": BEST, "new": 0}


def test_one_pod_after_the_other_counts_before_the_watch_says_so() -> None:
    first, second = waiting("a", {"cpu": "2"}), waiting("b", {"cpu": "2"})
    made = extender(small_view({"large": {"cpu": "16"}, "small": {"cpu": "2"}}, first, second))
    assert _scores(made.prioritize(by_names(first, ["large", "small"])))["small"] == BEST
    assert _scores(made.prioritize(by_names(second, ["large", "small"])))["large"] == BEST
    # Asked about again, it is not in its own way.
    assert _scores(made.prioritize(by_names(first, ["large", "small"])))["small"] == BEST


def test_what_was_assumed_ends_when_the_cluster_says_otherwise() -> None:
    first, second = waiting("a", {"cpu": "2"}), waiting("b", {"cpu": "2"})
    view = small_view(_TWO, first, second)
    made = extender(view)
    made.prioritize(by_names(first, ["large", "small"]))
    told(view, running("a", "large", {"cpu": "2"}))
    assert _scores(made.prioritize(by_names(second, ["large", "small"])))["small"] == BEST


def test_a_policy_that_fails_leaves_the_decision_to_kube_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = waiting("web")
    made = extender(small_view(_TWO, asked))

    def fails(observation: object) -> object:
        raise RuntimeError("no")

    monkeypatch.setattr(made._policy, "ask", fails)
    found = made.prioritize(by_names(asked, ["large", "small"]))
    assert found.neutral == "error: RuntimeError: no"
    assert _scores(found) == {"large": 0, "small": 0}


def test_until_the_cluster_is_known_every_node_is_liked_equally() -> None:
    asked = waiting("web")
    made = extender(small_view(_TWO))
    made.ready = lambda: False
    args = by_names(asked, ["large", "small"])
    assert made.filter(args).NodeNames == ["large", "small"]
    assert _scores(made.prioritize(args)) == {"large": 0, "small": 0}


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": {"name": "x"}},
        {"metadata": {"name": "x"}, "spec": {"containers": []}},
        {"metadata": {"name": "x"}, "spec": {"containers": "many"}},
        {"metadata": {}, "spec": {}},
        {"metadata": {"name": "x"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}},
        {"metadata": {"name": "x"}, "spec": {"containers": [{}], "resourceClaims": [{"name": "dra"}]}},
        {"metadata": None, "spec": None},
    ],
)
def test_a_pod_that_cannot_be_read_is_left_to_kube_scheduler(broken: dict[str, Any]) -> None:
    made = extender(small_view(_TWO), options=ExtenderOptions(filters="all"))
    args = by_names(broken, ["large", "small"])
    assert made.filter(args).NodeNames == ["large", "small"]
    assert made.prioritize(args).neutral
    assert list(
        made.preempt(ExtenderPreemptionArgs(broken, {}, {"large": MetaVictims()})).NodeNameToMetaVictims
    )


def test_too_many_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="more than"):
        extender(small_view(_TWO)).filter(by_names(waiting("web"), ["n"] * 20_001))


def test_preemption_keeps_what_helps_and_tells_victims_by_uid() -> None:
    there = running("first", "gpu", {"cpu": "1"}, annotations=_SHARED)
    view = small_view({"gpu": _GPU, "plain": {}}, there)
    asked = waiting("urgent", annotations=_SHARED, priority=1000)
    victims = {"gpu": Victims([there], 1), "plain": Victims([], 0)}
    left = extender(view).preempt(ExtenderPreemptionArgs(asked, victims)).NodeNameToMetaVictims
    assert left == {"gpu": MetaVictims([MetaPod("uid-first")], 1)}
    plain = waiting("plain", priority=1000)
    kept = extender(view).preempt(ExtenderPreemptionArgs(plain, victims)).NodeNameToMetaVictims
    assert list(kept) == ["gpu", "plain"]


def test_binding_names_the_devices_and_tells_what_went_wrong() -> None:
    bound: list[tuple[tuple[str, str, str], str, dict[str, str]]] = []
    asked = waiting("share", annotations=_SHARED)
    made = extender(
        small_view({"gpu": _GPU}, asked), bind=lambda pod, node, notes: bound.append((pod, node, notes))
    )
    args = ExtenderBindingArgs("share", "default", "uid-share", "gpu")
    assert made.bind(args).Error == ""
    assert bound == [(("default", "share", "uid-share"), "gpu", {"proreus.io/gpu-devices": "0"})]

    def refuses(pod: object, node: object, notes: object) -> None:
        raise WorkError("pod share is already assigned to a node")

    again = extender(small_view({"gpu": _GPU}, asked), bind=refuses)
    assert again.bind(args).Error == "pod share is already assigned to a node"
    assert "--bind" in extender(small_view({"gpu": _GPU})).bind(args).Error


@given(
    st.lists(st.integers(-1, 30), min_size=1, max_size=20, unique=True),
    st.dictionaries(st.integers(0, 30), st.floats(-1e6, 1e6), max_size=30),
    st.integers(-1, 30),
)
def test_scores_are_legal_and_one_node_is_best(rows: list[int], liked: dict[int, float], chosen: int) -> None:
    bids = np.array(list(liked), dtype=np.int64), np.array(list(liked.values()), dtype=np.float64)
    scores = priorities(np.array(rows, dtype=np.int64), chosen, bids)
    assert len(scores) == len(rows)
    assert all(0 <= score <= BEST for score in scores)
    asked = {row: liked[row] for row in rows if row in liked}
    if asked:
        assert scores.count(BEST) == 1 and max(scores[:]) == BEST
        best = rows[scores.index(BEST)]
        assert asked[best] == max(asked.values())
        assert all(score <= NEXT for score in scores if score != BEST)
    else:
        assert scores == [BEST if row >= 0 and row == chosen else 0 for row in rows]


def test_a_policy_without_scores_names_one_node() -> None:
    asked = waiting("web")
    found = _scores(
        extender(small_view(_TWO, asked), "random").prioritize(by_names(asked, ["large", "small"]))
    )
    assert sorted(found.values()) == [0, BEST]


def test_a_policy_from_elsewhere_that_hangs_is_ended_and_rests(tmp_path: Path) -> None:
    """It runs in a process of its own; kube-scheduler is answered in time and decides alone."""
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "from proreus.model.decision import Place\n"
        "class Slow:\n"
        "    asked = 0\n"
        "    def decide(self, observation):\n"
        "        self.asked += 1\n"
        "        time.sleep(60.0 if self.asked == 3 else 0.0)\n"
        "        return Place(0)\n"
    )
    strangers = pod_strangers()
    try:
        options = PolicyOptions(kube_percentage=100, preempt=False)
        policy = GuardedPolicy(f"{tmp_path / 'slow.py'}:Slow", options, 0, 2.0, strangers)
        asked = waiting("web")
        made = Extender(small_view(_TWO, asked), policy)
        said = []
        for _ in range(5):
            began = time.monotonic()
            scored = made.prioritize(by_names(asked, ["large", "small"]))
            said.append(scored.neutral.partition(":")[0])
            assert time.monotonic() - began < 30.0
        assert said == ["", "", "deadline", "resting", "resting"]
        assert _scores(scored) == {"large": 0, "small": 0}
    finally:
        strangers.close()
