"""The SchedulingAgent's core: events in, instructions out, no I/O."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.objects.decision_annotation import DECISION, read_decision
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler import decider as deciding
from proreus.engine.scheduler.core import SchedulingCore, SchedulingOptions
from proreus.engine.scheduler.decider import Decider
from proreus.engine.scheduler.event_handlers import PATIENCE
from proreus.engine.scheduler.instructions import (
    BindPodTo,
    Complain,
    DelayPod,
    Instruction,
    InstructionFailed,
    ObjectDeleted,
    ObjectUpdated,
    PreemptFor,
    RejectPod,
)
from proreus.engine.scheduler.messages import DEVICES
from proreus.engine.scheduler.profiles import ALGORITHMS, Schedulers
from proreus.model import decision as model
from proreus.worlds.pods.policies.catalogue import PolicyOptions
from proreus.worlds.pods.policies.checkpoint_tensors import PRETRAINED
from proreus.worlds.pods.world import WORLD
from tests.engine.scheduler.objects import Object, node, on, pod

PATIENT_MS = 10_000.0
"""A deadline that even a busy machine keeps."""


class Slow:
    """Takes longer than anybody waits."""

    def decide(self, observation: Any) -> model.Decision:
        time.sleep(0.2)
        return model.Delay()


class Wrong:
    """Chooses a node that there is not."""

    def decide(self, observation: Any) -> model.Decision:
        return model.Place(10_000)


class Raising:
    """Fails."""

    def decide(self, observation: Any) -> model.Decision:
        raise RuntimeError("no idea")


class Moody:
    """Fails for whoever does not say that it is in a good mood."""

    def decide(self, observation: Any) -> model.Decision:
        if dict(observation.subject.spec.labels).get("mood") != "good":
            raise RuntimeError("not\ntoday")
        return model.Place(0)


class Unsure:
    """Says that it is not made for this."""

    def unsure(self, observation: Any) -> str:
        return "never seen such a cluster"

    def decide(self, observation: Any) -> model.Decision:
        return model.Reject()


class Rejecting:
    """Wants no pod at all."""

    def decide(self, observation: Any) -> model.Decision:
        return model.Reject()


class Waiting:
    """Always waits."""

    def decide(self, observation: Any) -> model.Decision:
        return model.Delay()


def core_with(
    *nodes: Object, policy: str = "kube", shadow: str = "", deadline_ms: float = PATIENT_MS
) -> SchedulingCore:
    core = SchedulingCore(SchedulingOptions(default=Chosen(policy, shadow, deadline_ms)))
    for one in nodes:
        core.handle(ObjectUpdated("Node", one), 0.0)
    return core


def see(core: SchedulingCore, *objects: Object, now: float = 0.0) -> None:
    for obj in objects:
        core.handle(ObjectUpdated(obj["kind"], obj), now)


def only(instructions: list[Instruction]) -> Instruction:
    assert len(instructions) == 1, instructions
    return instructions[0]


def bound(instructions: list[Instruction]) -> BindPodTo:
    found = only(instructions)
    assert isinstance(found, BindPodTo), found
    return found


def test_a_pod_is_bound_with_its_reasons() -> None:
    core = core_with(node("small", "2"), node("large", "16"), node("full", "500m"))
    see(core, pod("web"))
    found = bound(core.cycle(1.0))
    assert found.node == "large"
    assert found.told == (
        "Successfully assigned default/web to large: large scored 469, next came small with 436: "
        "ahead by free room [NodeResourcesFit] (96, not 74) and balance of CPU and memory "
        "[NodeResourcesBalancedAllocation] (73, not 62)"
    )
    document = json.loads(found.annotations[DECISION])
    assert document["policy"] == "kube" and document["node"] == "large"
    assert (document["feasible"], document["of"]) == (2, 3)
    assert document["refused"] == {"Insufficient cpu": 1}
    assert document["next"]["node"] == "small" and document["next"]["score"] < document["score"]


def test_assumed_pods_take_their_room_until_the_binding_fails() -> None:
    core = core_with(node("one", "1"))
    see(core, pod("a"), pod("b"))
    first = bound(core.cycle(1.0))
    assert isinstance(only(core.cycle(1.0)), DelayPod), (
        "the room is taken, though the store knows nothing yet"
    )
    core.handle(InstructionFailed(first.pod, "conflict"), 2.0)
    assert bound(core.cycle(2.0)).pod.name == "b", "the one that failed backs off, the other is woken"


def test_a_pod_that_is_gone_makes_room_and_wakes_those_it_helps() -> None:
    core = core_with(node("one", "2"))
    see(core, on(pod("there", "2"), "one"), pod("big", "2"), pod("huge", "8"))
    assert all(isinstance(delay_pod, DelayPod) for delay_pod in core.cycle(1.0, 9))
    assert core.queue.counts()["pool"] == 2
    core.handle(ObjectDeleted("Pod", on(pod("there", "2"), "one")), 5.0)
    assert core.queue.counts()["pool"] == 1, "the huge one would not fit"
    assert bound(core.cycle(5.0, 9)).pod.name == "big"


def test_a_finished_pod_makes_room() -> None:
    core = core_with(node("one", "1"))
    see(core, on(pod("there"), "one"), pod("next"))
    core.cycle(1.0, 9)
    see(core, on(pod("there", status={"phase": "Succeeded"}), "one"), now=5.0)
    assert bound(core.cycle(5.0, 9)).pod.name == "next"


def test_what_is_said_where_no_node_is_available() -> None:
    tainted = node("t", taints=[{"key": "k", "effect": "NoSchedule"}])
    core = core_with(
        node("a", "1"), node("b", "1"), tainted, node("c", unschedulable=True), node("d", pods=0)
    )
    see(core, on(pod("x", "900m"), "a"), on(pod("y", "900m"), "b"), pod("web"))
    delay_pod = only(core.cycle(1.0))
    assert isinstance(delay_pod, DelayPod)
    assert delay_pod.told == (
        "0/5 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/5 nodes are available: "
        "2 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod."
    )


def test_preemption_evicts_nominates_and_then_binds_there() -> None:
    core = core_with(node("one", "1"), node("two", "1"))
    low = [on(pod("low-1", priority=0), "one"), on(pod("low-2", priority=5), "two")]
    see(core, *low, pod("high", priority=100))
    preempt_for = only(core.cycle(1.0))
    assert isinstance(preempt_for, PreemptFor)
    assert (preempt_for.node, [victim.name for victim in preempt_for.victims]) == ("one", ["low-1"])
    assert preempt_for.told == "0/2 nodes are available: 2 Insufficient cpu."
    # While the victim is on its way out nobody else is evicted, and pods of lower priority do not go there.
    leaving = on(pod("low-1", priority=0, deletionTimestamp="2026-01-01T00:00:00Z"), "one")
    see(core, leaving, pod("mean", priority=50), now=3.0)
    answers = core.cycle(20.0, 9)
    waits = next(answer for answer in answers if answer.pod.name == "high")  # type: ignore[union-attr]
    assert isinstance(waits, DelayPod) and "terminating pod on the nominated node" in waits.told
    assert not waits.clear_nomination
    mean = next(answer for answer in answers if answer.pod.name == "mean")  # type: ignore[union-attr]
    assert isinstance(mean, PreemptFor) and mean.node == "two"
    core.handle(ObjectDeleted("Pod", leaving), 40.0)
    preempt_for = bound([one for one in core.cycle(40.0, 9) if isinstance(one, BindPodTo)])
    assert (preempt_for.pod.name, preempt_for.node) == ("high", "one")


def test_room_that_is_freed_for_a_pod_is_left_to_it() -> None:
    core = core_with(node("one", "1"))
    see(core, on(pod("low", priority=0), "one"), pod("high", priority=100))
    assert isinstance(only(core.cycle(1.0)), PreemptFor)
    core.handle(ObjectDeleted("Pod", on(pod("low", priority=0), "one")), 1.5)
    see(core, pod("thief", priority=1), now=1.5)
    # The thief is active while the other still backs off.
    answers = core.cycle(1.5, 9)
    assert isinstance(answers[0], DelayPod) and answers[0].pod.name == "thief"
    assert isinstance(answers[1], BindPodTo) and answers[1].pod.name == "high"


def test_scores_do_not_see_whom_room_was_made_for() -> None:
    core = core_with(node("one", "8"), node("two", "8"))
    see(core, on(pod("low", "4", priority=0), "one"), on(pod("mid", "5", priority=5), "two"))
    see(core, pod("high", "7", priority=100))
    chosen = only(core.cycle(1.0))
    assert isinstance(chosen, PreemptFor) and chosen.node == "one"
    core.handle(ObjectDeleted("Pod", on(pod("low", "4", priority=0), "one")), 1.5)
    see(core, pod("small", "100m", priority=1), now=1.5)
    found = core.cycle(1.5)[0]
    assert isinstance(found, BindPodTo) and (found.pod.name, found.node) == ("small", "one"), (
        "there is room for both, and nothing runs there yet"
    )


def test_filters_ask_without_whom_room_was_made_for_too() -> None:
    core = core_with(node("one", "8"))
    see(core, on(pod("low", "4", priority=0), "one"), pod("high", "7", priority=100, labels={"app": "db"}))
    assert isinstance(only(core.cycle(1.0)), PreemptFor)
    core.handle(ObjectDeleted("Pod", on(pod("low", "4", priority=0), "one")), 1.5)
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    see(core, pod("near", "100m", priority=1, affinity=near), now=1.5)
    delay_pod = core.cycle(1.5)[0]
    assert isinstance(delay_pod, DelayPod) and delay_pod.pod.name == "near", (
        "the one it wants to be near may not come"
    )


def test_nominated_pods_count_on_their_own_nodes_alone() -> None:
    zone = {"topology.kubernetes.io/zone": "a"}
    core = core_with(node("one", "8", labels=zone), node("two", "1", labels=zone))
    see(core, on(pod("low", "4", priority=0), "one"), pod("high", "7", priority=100, labels={"app": "db"}))
    assert isinstance(only(core.cycle(1.0)), PreemptFor)
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "topology.kubernetes.io/zone"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    see(core, pod("apart", "500m", priority=1, affinity=apart), now=1.5)
    found = core.cycle(1.5)[0]
    assert isinstance(found, BindPodTo) and found.node == "two", "it is not in the zone before it is bound"


def test_budgets_choose_the_victims() -> None:
    core = core_with(node("one", "1"), node("two", "1"))
    guarded = {"app": "guarded"}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": guarded}},
    }
    low = [on(pod("a", priority=0, labels=guarded), "one"), on(pod("b", priority=5), "two")]
    see(core, *low, budget, pod("high", priority=100))
    preempt_for = only(core.cycle(1.0))
    assert isinstance(preempt_for, PreemptFor) and preempt_for.node == "two", (
        "b is of higher priority, and not guarded"
    )


@pytest.mark.parametrize(
    ("policy", "reason"),
    [("Wrong", "wrong"), ("Raising", "error"), ("Unsure", "unsure"), ("Slow", "deadline")],
)
def test_the_kube_rules_decide_where_a_policy_does_not(policy: str, reason: str) -> None:
    name = f"tests.engine.scheduler.test_core:{policy}"
    deadline = 20.0 if reason == "deadline" else PATIENT_MS
    core = core_with(node("one"), node("two", "16"), policy=name, deadline_ms=deadline)
    see(core, pod("web"))
    found = bound(core.cycle(1.0))
    assert found.node == "two"
    noted = json.loads(found.annotations[DECISION])
    assert (noted["fallback"], core.fallbacks()[reason]) == (reason, 1)
    says = {"wrong": "may not go there", "error": "RuntimeError: no idea", "unsure": "never seen such"}
    assert says.get(reason, "") in noted["why"]


def test_a_policy_that_fails_is_told_in_events_ever_more_rarely_and_until_it_answers() -> None:
    core = core_with(node("one", "64"), policy=f"{__name__}:Moody")
    see(core, *(pod(f"p{k}") for k in range(5)))
    found = [*core.cycle(1.0, 9), *core.cycle(1.0)]
    told = [one for one in found if isinstance(one, Complain)]
    assert [one.object["metadata"]["name"] for one in told] == ["p0", "p1", "p3"]
    assert {one.reason for one in told} == {"PolicyFailed"}
    assert told[2].told.startswith(f"policy {__name__}:Moody: RuntimeError: not today (test_core.py, line ")
    assert told[2].told.endswith(" (error, 4 times so far); the kube rules decided")
    failing = core.failing()["default-scheduler"]["policy"]
    assert "not today" in failing and "5 times so far" in failing
    see(core, pod("p5", labels={"mood": "good"}), now=2.0)
    bound(core.cycle(2.0))
    assert core.failing() == {}


def test_a_shadow_that_fails_is_told_and_not_felt() -> None:
    core = core_with(node("one"), shadow=f"{__name__}:Raising")
    see(core, pod("web"))
    assert bound(core.cycle(1.0)).node == "one"
    (told,) = core.cycle(1.0)
    assert isinstance(told, Complain) and told.told.startswith(f"shadow {__name__}:Raising: RuntimeError")
    assert set(core.failing()["default-scheduler"]) == {"shadow"}


def test_rules_to_which_all_nodes_are_alike_give_no_scores() -> None:
    for rule in ("random", "round_robin", "first_fit"):
        core = core_with(node("one"), node("two"), policy=rule)
        see(core, pod("web"))
        noted = bound(core.cycle(1.0)).annotations[DECISION]
        assert not {"score", "next"} & json.loads(noted).keys()
        decision = read_decision(noted)
        assert decision is not None and decision.reasons[0].startswith("2 of 2 nodes could take it, ")


def test_a_policy_that_is_too_slow_is_left_alone_for_a_while() -> None:
    core = core_with(node("one", "64"), policy=f"{__name__}:Slow", deadline_ms=10.0)
    see(core, *(pod(f"p{k}") for k in range(12)))
    found = core.cycle(1.0, 12)
    assert all(isinstance(one, BindPodTo) for one in found)
    assert core.fallbacks()["deadline"] < 5
    assert len(core.picture.cluster.pods_on("one")) == 12, "nothing is lost when the columns are left behind"


def test_delay_backs_off_and_reject_is_for_good() -> None:
    core = core_with(node("one"), policy=f"{__name__}:Waiting")
    see(core, pod("web"))
    assert isinstance(only(core.cycle(1.0)), DelayPod)
    assert not core.cycle(1.5)
    assert isinstance(only(core.cycle(10.0)), DelayPod)
    core = core_with(node("one"), policy=f"{__name__}:Rejecting")
    see(core, pod("web"))
    assert isinstance(only(core.cycle(1.0)), RejectPod)
    assert not core.cycle(1000.0)
    see(core, pod("web", "2"), now=1001.0)
    assert isinstance(only(core.cycle(1001.0)), RejectPod), "it has changed"
    see(core, choices(default_scheduler="kube"), now=1002.0)
    assert isinstance(only(core.cycle(1002.0)), BindPodTo), "others are asked"


def choices(**data: str) -> Object:
    metadata = {"name": "proreus-schedulers", "namespace": "kube-system"}
    return {
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {k.replace("_", "-"): v for k, v in data.items()},
    }


def test_schedulers_are_chosen_and_switched_live() -> None:
    core = core_with(node("one", "2"), node("two", "16"))
    mine = pod("mine", schedulerName="my-scheduler")
    see(core, mine, pod("packed", schedulerName="best_fit"))
    assert bound(core.cycle(1.0, 9)).node == "one", "a rule's name stands for itself; my-scheduler is unknown"
    see(core, choices(my_scheduler='{"policy": "kube", "deadline_ms": 50}'))
    assert bound(core.cycle(2.0, 9)).pod.name == "mine"
    see(core, choices(my_scheduler="nonsense"))
    complaint = only(core.cycle(3.0, 9))
    assert isinstance(complaint, Complain) and "unknown policy 'nonsense'" in complaint.told
    see(core, pod("again", schedulerName="my-scheduler"))
    assert bound(core.cycle(4.0, 9)).pod.name == "again", "who was chosen before stays"
    assert complaint.told.startswith("this entry stays as it was until the engine starts anew")
    anew = core_with(node("one", "2"))
    see(anew, choices(my_scheduler="nonsense"), pod("late", schedulerName="my-scheduler"))
    found = anew.cycle(4.0, 9)
    assert isinstance(found[0], Complain) and found[0].told.startswith("this entry does not count")
    assert isinstance(found[1], DelayPod) and "unknown policy 'nonsense'" in found[1].told, (
        "nothing is guessed"
    )
    core.handle(ObjectDeleted("ConfigMap", choices()), 5.0)
    see(core, pod("more", schedulerName="my-scheduler"), now=5.0)
    assert not core.cycle(6.0, 9)


def test_one_bad_entry_of_the_choices_does_not_touch_the_others() -> None:
    core = core_with(node("one", "2"), node("two", "16"))
    see(core, choices(nope="nonsense", torn="{", default_scheduler="best_fit"))
    messages = [one.told for one in core.cycle(1.0, 9) if isinstance(one, Complain)]
    assert len(messages) == 2 and all(f"data.{name}: " in " ".join(messages) for name in ("nope", "torn"))
    assert set(core.schedulers.refused) == {"nope", "torn"}
    see(core, choices(nope="nonsense", torn="{", default_scheduler="best_fit", more="kube"))
    assert not core.cycle(1.0, 9), "that was said"
    see(core, pod("web"), pod("lost", schedulerName="nope"), now=1.0)
    found = {one.pod.name: one for one in core.cycle(2.0, 9)}  # type: ignore[union-attr]
    assert isinstance(found["web"], BindPodTo) and found["web"].node == "one", "best_fit decides"
    assert isinstance(found["lost"], DelayPod) and "unknown policy 'nonsense'" in found["lost"].told
    see(core, choices(nope="kube"), now=20.0)
    assert bound(core.cycle(20.0, 9)).pod.name == "lost" and not core.schedulers.refused


@pytest.mark.parametrize("name", ["kube-plus", "kube_plus", "first-fit", "random"])
def test_names_of_rules_may_have_dashes(name: str) -> None:
    core = core_with(node("one"))
    see(core, pod("web", schedulerName=name))
    document = json.loads(bound(core.cycle(1.0)).annotations[DECISION])
    assert document["policy"] == name.replace("-", "_")


def test_a_pod_that_no_scheduler_takes_up_is_told_so_once() -> None:
    core = core_with(node("one"))
    lost = pod("lost", schedulerName="mystery")
    said = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "by somebody else"}]}
    see(core, lost, {**pod("theirs", schedulerName="volcano"), "status": said})
    see(core, pod("taken", schedulerName="volcano"), on(pod("taken", schedulerName="volcano"), "one"))
    assert not core.cycle(PATIENCE - 1, 9), "another scheduler may take it up"
    see(core, lost, now=PATIENCE - 1)
    delay_pod = only(core.cycle(PATIENCE, 9))
    assert isinstance(delay_pod, DelayPod) and delay_pod.pod.name == "lost"
    assert delay_pod.told.startswith("no scheduler named 'mystery': say one of default-scheduler, random,")
    assert delay_pod.told.endswith("or add it to the ConfigMap kube-system/proreus-schedulers")
    assert not core.cycle(2 * PATIENCE, 9)
    see(core, choices(mystery="kube"), now=20.0)
    assert bound(core.cycle(20.0, 9)).pod.name == "lost"


def test_a_pod_whose_scheduler_is_chosen_no_more_is_told_so() -> None:
    core = core_with()
    see(core, choices(mine="kube"), pod("web", schedulerName="mine"))
    assert isinstance(only(core.cycle(1.0, 9)), DelayPod), "there are no nodes"
    see(core, choices(), now=2.0)
    delay_pod = only(core.cycle(2.0, 9))
    assert isinstance(delay_pod, DelayPod) and "no scheduler named 'mine'" in delay_pod.told


def test_a_shadow_is_recorded_and_not_felt() -> None:
    core = core_with(node("one", "2"), node("two", "16"), shadow="best_fit")
    see(core, pod("web"))
    found = bound(core.cycle(1.0))
    assert found.node == "two"
    beside = json.loads(found.annotations[DECISION])["shadow"]
    assert (beside["policy"], beside["node"]) == ("best_fit", "one")
    assert beside["would"] == "one at 50% CPU and 1% memory, not two at 6% and 1%"
    seen = core.differences["default-scheduler"]
    assert (seen.agreed, seen.differed) == (0, 1)
    assert seen.last[0].shadow.node == "one" and seen.last[0].shadow.cpu == 0.5


def test_gates_deletion_and_another_of_the_same_name() -> None:
    core = core_with(node("one"))
    see(core, pod("gated", schedulingGates=[{"name": "wait"}]))
    see(core, pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert not core.cycle(1.0, 9)
    see(core, pod("gated"))
    assert bound(core.cycle(1.0, 9)).pod.uid == "uid-gated"
    see(core, pod("gated", uid="another"))
    assert bound(core.cycle(2.0, 9)).pod.uid == "another"
    assert core.picture.cluster.pods_on("one") == ["default/gated"]


def test_nodes_come_and_go_with_their_pods() -> None:
    core = core_with()
    see(core, on(pod("there", "3"), "one"), pod("web"))
    delay_pod = only(core.cycle(1.0))
    assert isinstance(delay_pod, DelayPod) and delay_pod.told == "no nodes available to schedule pods"
    see(core, node("one"), now=9.0)
    assert bound(core.cycle(9.0)).node == "one"
    see(core, pod("more"), now=9.0)
    assert isinstance(only(core.cycle(9.0)), DelayPod), "the pod that was there before its node takes room"
    core.handle(ObjectDeleted("Node", node("one")), 10.0)
    see(core, node("one", "8"), now=30.0)
    assert bound(core.cycle(30.0)).pod.name == "more"


def test_shared_gpus_are_written_down() -> None:
    core = core_with(node("gpu", extended={"nvidia.com/gpu": "2"}))
    share = {"proreus.io/gpu-milli": "600"}
    see(core, pod("a", annotations=share), pod("b", annotations=share))
    found = [one for one in core.cycle(1.0, 9) if isinstance(one, BindPodTo)]
    assert sorted(one.annotations[DEVICES] for one in found) == ["0", "1"]
    again = core_with(node("gpu", extended={"nvidia.com/gpu": "2"}))
    see(again, on(pod("a", annotations={**share, DEVICES: "1"}), "gpu"))
    assert again.picture.cluster.devices_of("default/a") == 2


def test_replicas_get_the_schedulers_own_spread_even_if_their_owner_comes_late() -> None:
    core = core_with(node("one", "64"), node("two", "32"))
    owner = [{"kind": "ReplicaSet", "name": "rs", "controller": True}]
    pods = [pod(f"r{k}", "10m", labels={"app": "r"}, ownerReferences=owner) for k in range(4)]
    see(core, *pods)
    selector = {"matchLabels": {"app": "r"}}
    rs = {
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "namespace": "default"},
        "spec": {"selector": selector},
    }
    see(core, rs)
    assert len(core.picture.pods["default/r0"].template.spec.spread) == 2
    nodes = [one.node for one in core.cycle(1.0, 9) if isinstance(one, BindPodTo)]
    assert sorted(nodes) == ["one", "one", "two", "two"]


def test_what_cannot_be_understood_is_told_and_tried_when_it_changes() -> None:
    core = core_with(node("one"))
    see(core, pod("odd", resourceClaims=[{"name": "x"}]))
    delay_pod = only(core.cycle(1.0))
    assert isinstance(delay_pod, DelayPod) and "resourceClaims" in delay_pod.told
    see(core, pod("odd"), now=2.0)
    assert bound(core.cycle(2.0)).node == "one"


def test_where_nobody_could_be_evicted_the_pod_is_tried_again() -> None:
    core = core_with(node("one", "1"))
    see(core, on(pod("low", priority=0), "one"), pod("high", priority=100))
    preempt_for = only(core.cycle(1.0))
    assert isinstance(preempt_for, PreemptFor)
    core.handle(InstructionFailed(preempt_for.pod, "the store is away"), 1.0)
    assert not core.picture.nominated
    assert isinstance(only(core.cycle(20.0)), PreemptFor)


def test_checkpoints_of_a_folder_stand_for_themselves(tmp_path: Path) -> None:
    shutil.copytree(PRETRAINED / "pods", tmp_path / "ppo" / "best")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "card.json").write_text("{}")
    core = SchedulingCore(SchedulingOptions(models=tmp_path))
    names = ("ppo", "broken", "../ppo", "es")
    see(core, node("one"), *(pod(f"p{k}", schedulerName=name) for k, name in enumerate(names)))
    found = {one.pod.name: one for one in core.cycle(1.0, 9)}  # type: ignore[union-attr]
    assert isinstance(found["p0"], BindPodTo)
    assert json.loads(found["p0"].annotations[DECISION])["policy"].endswith("ppo")
    assert isinstance(found["p1"], DelayPod) and "broken" in found["p1"].told
    assert isinstance(found["p3"], DelayPod)
    assert found["p3"].told == (
        "schedulerName es needs a trained model: "
        f"proreus train pods --algo es --scenarios gpu --out {tmp_path}/es"
    )
    assert set(found) == {"p0", "p1", "p3"}, "the other is nobody's"
    shutil.copytree(PRETRAINED / "pods", tmp_path / "es")
    see(core, pod("p3", "2", schedulerName="es"), now=2.0)
    assert bound(core.cycle(2.0, 9)).pod.name == "p3", "there is one now"


def test_a_model_of_ones_own_goes_before_the_one_that_ships(tmp_path: Path) -> None:
    schedulers = Schedulers({}, Chosen("kube"), tmp_path)
    assert schedulers.named("ddqn") == Chosen("ddqn")
    shutil.copytree(PRETRAINED / "pods", tmp_path / "ddqn" / "best")
    assert schedulers.named("ddqn") == Chosen(str(tmp_path / "ddqn"))
    assert Schedulers({}, Chosen("kube")).named("ddqn") == Chosen("ddqn")


def test_algorithms_are_those_that_train_pods() -> None:
    assert set(ALGORITHMS) == set(WORLD.learners)


def test_what_compiles_has_no_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deciding, "_WARM_UP_SECONDS", 0.0)
    shutil.copytree(PRETRAINED / "pods", tmp_path / "run" / "best")
    Decider(Chosen(str(tmp_path / "run"), "best_fit"), PolicyOptions(), 0).warm_up()
    assert not caplog.records
    Decider(Chosen(f"{__name__}:Waiting"), PolicyOptions(), 0).warm_up()
    assert "has not answered for 0 s; until it does the kube rules decide" in caplog.text


def test_whom_pods_name_is_kept_when_the_choice_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_with(node("one", "64"))
    see(core, pod("a", schedulerName="best_fit"))
    bound(core.cycle(1.0))
    made: list[str] = []
    warm_up = Decider.warm_up

    def noted(decider: Decider) -> None:
        made.append(decider.chosen.policy)
        warm_up(decider)

    monkeypatch.setattr(Decider, "warm_up", noted)
    see(core, choices(experiment="fgd"), now=2.0)
    see(core, pod("b", schedulerName="best_fit"), now=2.0)
    bound(core.cycle(2.0))
    assert made == ["fgd"]


def test_a_pod_that_could_not_be_told_why_it_waits_is_decided_about_again() -> None:
    core = core_with(node("one", "1"))
    see(core, pod("big", "2"))
    delay = only(core.cycle(1.0))
    assert isinstance(delay, DelayPod) and core.queue.counts()["pool"] == 1
    core.handle(InstructionFailed(delay.pod, "not now", told_only=True), 1.0)
    assert core.cycle(1.5) == [], "it backs off"
    assert only(core.cycle(9.0)) == delay


def test_a_pod_that_went_somewhere_meanwhile_stays_there_though_it_was_not_told_before() -> None:
    core = core_with(node("one", "1"))
    see(core, on(pod("there"), "one"), pod("next"))
    delay = only(core.cycle(1.0))
    assert isinstance(delay, DelayPod)
    core.handle(ObjectDeleted("Pod", on(pod("there"), "one")), 5.0)
    assert bound(core.cycle(5.0)).pod.name == "next"
    core.handle(InstructionFailed(delay.pod, "not now", told_only=True), 6.0)
    assert core.cycle(60.0) == []


def test_a_rejection_that_could_not_be_told_is_made_again() -> None:
    core = core_with(node("one"), policy=f"{__name__}:Rejecting")
    see(core, pod("web"))
    rejection = only(core.cycle(1.0))
    assert isinstance(rejection, RejectPod) and core.cycle(100.0) == []
    core.handle(InstructionFailed(rejection.pod, "not now", told_only=True), 101.0)
    assert only(core.cycle(110.0)) == rejection


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            "kube",
            "small scored 465, next came large with 450: ahead by free room [NodeResourcesFit] (93, not 77); "
            "behind by balance of CPU and memory [NodeResourcesBalancedAllocation] (72, not 73)",
        ),
        (
            "learned",
            "small scored -4.37, next came large with -5.615: ahead by cpu left (-4.375, not -5.625); "
            "behind by order (0.005, not 0.01)",
        ),
        (
            "planner",
            "small scored -4.37, next came large with -5.615: ahead by cpu left (-4.375, not -5.625); "
            "behind by order (0.005, not 0.01)",
        ),
        ("best_fit", "large scored 46, next came small with 28 (best_fit)"),
        ("fgd", "large scored 50, and so did small"),
        ("random", ""),
    ],
)
def test_a_decision_is_told_by_what_its_scores_are_made_of(policy: str, told: str) -> None:
    gpus = {"large": {"nvidia.com/gpu": "2"}, "small": {"nvidia.com/gpu": "4"}}
    core = core_with(
        node("large", "8", "16Gi", extended=gpus["large"]),
        node("small", "4", extended=gpus["small"]),
        policy=policy,
    )
    see(core, on(pod("there", "3"), "large"), pod("web", "500m"))
    found = bound(core.cycle(1.0))
    noted = read_decision(found.annotations[DECISION])
    assert noted is not None
    assert found.told.partition(": ")[2] == told == ("" if policy == "random" else noted.reasons[0])
    uses = {"small": "small is at 12% CPU and 1% memory with it, large would be at 44% and 1%"}
    uses["large"] = "large is at 44% CPU and 1% memory with it, small would be at 12% and 1%"
    assert policy == "random" or noted.reasons[1] == uses[found.node]
