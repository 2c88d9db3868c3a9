"""Laws of the task agents, from any state: replicas converge, limits hold, each end is counted once."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.engine.controllers.instructions import CreateObject, DeleteObject, Instruction, UpdateObject
from proreus.engine.controllers.workloads.deployments import reconcile_deployment
from proreus.engine.controllers.workloads.job_indexes import read_indexes, write_indexes
from proreus.engine.controllers.workloads.job_pods import FINALIZER
from proreus.engine.controllers.workloads.jobs import reconcile_job
from proreus.engine.controllers.workloads.replica_sets import reconcile_replica_set
from proreus.engine.controllers.workloads.revisions import new_replica_set, sort_out, template_hash
from proreus.engine.controllers.workloads.rolling_update import limits_of
from proreus.engine.objects.kinds import POD, REPLICA_SET, Kind
from proreus.engine.objects.metadata import owner_reference
from proreus.engine.objects.timestamps import timestamp
from tests.engine.controllers.clusters import deployment, job

NOW = 1_800_000_000.0
Object = dict[str, Any]
PODS = st.lists(
    st.tuples(
        st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        st.booleans(),  # ready
        st.booleans(),  # on its way out
        st.sampled_from(["mine", "orphan", "stranger", "stray"]),
    ),
    max_size=12,
)


class World:
    """Objects in memory; instructions change them as the registry would, at once."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[Kind, Object]] = {}
        self._names = itertools.count()

    def put(self, kind: Kind, obj: Object) -> Object:
        number = next(self._names)
        metadata = {"name": f"o{number:04}", "namespace": "default", **obj["metadata"]}
        metadata |= {"uid": f"u{number:04}", "creationTimestamp": timestamp(NOW + number), "generation": 1}
        made = {**obj, "metadata": metadata}
        self.objects[metadata["uid"]] = (kind, made)
        return made

    def of(self, kind: Kind) -> list[Object]:
        return [obj for known, obj in self.objects.values() if known is kind]

    def do(self, instructions: tuple[Instruction, ...]) -> bool:
        """Whether anything changed."""
        acted = False
        for instruction in instructions:
            match instruction:
                case CreateObject(kind, obj):
                    status = {"phase": "Pending"} if kind is POD else {}
                    self.put(kind, {**obj, "status": status})
                    acted = True
                case UpdateObject(kind, obj):
                    self.objects[obj["metadata"]["uid"]] = (kind, obj)
                    acted = True
                case DeleteObject(_, obj):
                    self.objects.pop(obj["metadata"]["uid"], None)
                    acted = True
        return acted


def ready(pod: Object, truth: bool = True) -> Object:
    condition = {"type": "Ready", "status": str(truth), "lastTransitionTime": timestamp(NOW)}
    return {**pod, "status": {"phase": "Running", "conditions": [condition]}}


@given(replicas=st.integers(0, 8), states=PODS)
@settings(max_examples=150, deadline=None)
def test_replicas_converge_from_any_state(replicas: int, states: list[Any]) -> None:
    world = World()
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}}
    template = deployment()["spec"]["template"]
    owner = world.put(REPLICA_SET, {"metadata": {}, "spec": {**spec, "template": template}})
    strangers = set()
    for phase, serves, out, whose in states:
        labels = {"app": "other" if whose == "stray" else "web"}
        metadata: Object = {"labels": labels}
        if whose in ("mine", "stray"):
            metadata["ownerReferences"] = [owner_reference(REPLICA_SET, owner)]
        elif whose == "stranger":
            metadata["ownerReferences"] = [{"kind": "X", "name": "x", "uid": "x", "controller": True}]
        if out:
            metadata["deletionTimestamp"] = timestamp(NOW)
        pod = world.put(POD, {"metadata": metadata, "spec": {}, "status": {"phase": phase}})
        if phase == "Running":
            pod = ready(pod, serves)
            world.objects[pod["metadata"]["uid"]] = (POD, pod)
        if whose == "stranger":
            strangers.add(pod["metadata"]["uid"])
    for _ in range(10):
        current = world.objects[owner["metadata"]["uid"]][1]
        if not world.do(reconcile_replica_set(current, world.of(POD), NOW).instructions):
            break
    else:
        raise AssertionError("it never came to rest")
    mine = [
        pod
        for pod in world.of(POD)
        if pod["status"]["phase"] in ("Pending", "Running")
        and "deletionTimestamp" not in pod["metadata"]
        and any(ref["uid"] == owner["metadata"]["uid"] for ref in pod["metadata"].get("ownerReferences", ()))
    ]
    status = world.objects[owner["metadata"]["uid"]][1]["status"]
    assert len(mine) == replicas == status["replicas"]
    assert strangers <= world.objects.keys()


LIMIT = st.one_of(st.integers(0, 5), st.sampled_from(["0%", "25%", "50%", "100%"]))


@given(
    replicas=st.integers(1, 10),
    surge=LIMIT,
    unavailable=LIMIT,
    luck=st.lists(st.booleans(), min_size=40, max_size=40),
    again=st.integers(0, 10),
)
@settings(max_examples=60, deadline=None)
def test_a_rollout_keeps_its_limits_whatever_becomes_ready_when(
    replicas: int, surge: int | str, unavailable: int | str, luck: list[bool], again: int
) -> None:
    """Also where the template changes again half way; in the end everything is new."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    world, wanted = World(), deployment(replicas=replicas, strategy=strategy)
    wanted["metadata"] |= {"uid": "d", "generation": 1}
    limits = limits_of(wanted)
    wanted = _settle(world, wanted, every_ready=True)
    chance = iter(luck)
    for step in range(30):
        if step in (0, again):
            wanted = _with_image(wanted, f"nginx:{step + 2}")
        wanted = _step(world, wanted)
        for replica_set in world.of(REPLICA_SET):
            _fill(world, replica_set, every_ready=next(chance, True))
        total = sum(one["spec"]["replicas"] for one in world.of(REPLICA_SET))
        serving = sum(one["status"].get("availableReplicas", 0) for one in world.of(REPLICA_SET))
        assert total <= limits.most, (total, limits)
        assert serving >= limits.fewest, (serving, limits)
    wanted = _settle(world, wanted, every_ready=True)
    living = [one for one in world.of(REPLICA_SET) if one["spec"]["replicas"]]
    assert [one["spec"]["replicas"] for one in living] == [replicas]
    assert living[0]["spec"]["template"]["spec"] == wanted["spec"]["template"]["spec"]


def _with_image(wanted: Object, image: str) -> Object:
    template = wanted["spec"]["template"]
    containers = [{**template["spec"]["containers"][0], "image": image}]
    changed = {**template, "spec": {**template["spec"], "containers": containers}}
    metadata = {**wanted["metadata"], "generation": wanted["metadata"]["generation"] + 1}
    return {**wanted, "metadata": metadata, "spec": {**wanted["spec"], "template": changed}}


def _step(world: World, wanted: Object) -> Object:
    plan = reconcile_deployment(wanted, world.of(REPLICA_SET), (), NOW)
    rest = tuple(
        instruction
        for instruction in plan.instructions
        if not (isinstance(instruction, UpdateObject) and instruction.subresource)
    )
    world.do(rest)
    instructions = [
        instruction
        for instruction in plan.instructions
        if isinstance(instruction, UpdateObject) and instruction.subresource == "status"
    ]
    return instructions[-1].object if instructions else wanted


def _fill(world: World, replica_set: Object, *, every_ready: bool) -> None:
    """Its pods follow its size; what was ready stays so, the rest becomes ready or not."""
    size, before = replica_set["spec"]["replicas"], replica_set.get("status", {}).get("availableReplicas", 0)
    status = {"replicas": size, "availableReplicas": size if every_ready else min(size, before)}
    status |= {"readyReplicas": status["availableReplicas"], "observedGeneration": 1}
    world.objects[replica_set["metadata"]["uid"]] = (REPLICA_SET, {**replica_set, "status": status})


def _settle(world: World, wanted: Object, *, every_ready: bool) -> Object:
    for _ in range(60):
        wanted = _step(world, wanted)
        for replica_set in world.of(REPLICA_SET):
            _fill(world, replica_set, every_ready=every_ready)
    return wanted


@given(
    completions=st.integers(1, 6),
    parallelism=st.integers(1, 4),
    ends=st.lists(st.sampled_from(["Succeeded", "Failed"]), max_size=60),
    seed=st.randoms(use_true_random=False),
)
@settings(max_examples=80, deadline=None)
def test_a_job_counts_each_end_once_whoever_deletes_its_pods(
    completions: int, parallelism: int, ends: list[str], seed: Any
) -> None:
    """Pods end, and those that may go are deleted at any moment between two looks."""
    world, succeeded, failed, now = World(), 0, 0, NOW
    wanted = job(completions=completions, parallelism=parallelism, backoffLimit=1000)
    wanted["metadata"] |= {"uid": "j", "generation": 1, "creationTimestamp": timestamp(NOW)}
    fate = iter(ends)
    for _ in range(400):
        now += 1000.0  # longer than any pause
        plan = reconcile_job(wanted, world.of(POD), now)
        for instruction in plan.instructions:
            if isinstance(instruction, UpdateObject) and instruction.subresource == "status":
                wanted = instruction.object
            else:
                world.do((instruction,))
        if any(condition["type"] == "Complete" for condition in wanted["status"].get("conditions", ())):
            break
        for pod in world.of(POD):
            running = pod["status"]["phase"] == "Pending"
            if running and seed.random() < 0.7:
                phase = next(fate, "Succeeded")
                succeeded, failed = succeeded + (phase == "Succeeded"), failed + (phase == "Failed")
                world.objects[pod["metadata"]["uid"]] = (POD, {**pod, "status": {"phase": phase}})
            elif FINALIZER not in pod["metadata"].get("finalizers", ()) and seed.random() < 0.5:
                del world.objects[pod["metadata"]["uid"]]
    else:
        raise AssertionError("it never completed")
    status = wanted["status"]
    assert status["succeeded"] == succeeded >= completions
    assert status.get("failed", 0) == failed


def test_a_template_is_the_same_however_its_silence_is_written() -> None:
    plain, wordy, root, other = (deployment() for _ in range(4))
    for one in (plain, wordy, root, other):
        one["metadata"]["uid"] = "d"
    wordy["spec"]["template"]["metadata"] |= {"creationTimestamp": None, "generation": 0, "annotations": {}}
    wordy["spec"]["template"]["spec"] |= {"hostNetwork": False, "volumes": []}
    root["spec"]["template"]["spec"]["securityContext"] = {"runAsUser": 0}
    other["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    hashes = [template_hash(one) for one in (plain, wordy, root, other)]
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3  # zeros that mean something do count
    old = new_replica_set(wordy, 1, 1, 1)
    old["metadata"] |= {"uid": "r", "creationTimestamp": timestamp(NOW)}
    assert sort_out(plain, [old]).new is old and sort_out(root, [old]).new is None


@given(st.sets(st.integers(0, 200)))
def test_indexes_are_read_as_they_were_written(indexes: set[int]) -> None:
    written = write_indexes(indexes)
    assert read_indexes(written, 201) == indexes
    assert read_indexes(written, 100) == {index for index in indexes if index < 100}


def test_indexes_are_written_as_kubernetes_does_and_rubbish_is_none() -> None:
    assert write_indexes([0, 1, 3, 4, 5, 9]) == "0,1,3-5,9"
    assert read_indexes("2-99999999999,x,-,5-", 7) == {2, 3, 4, 5, 6}
