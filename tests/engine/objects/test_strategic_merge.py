"""Strategic merge patches: documented cases, and drawn ones held against kubectl's own merging."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import DEPLOYMENT, POD, SERVICE
from proreus.engine.objects.patch.strategic_merge import strategic_patched
from tests.engine.objects.worlds import deployment, pod

KUBECTL = os.environ.get("PROREUS_KUBECTL") or shutil.which("kubectl")


def _containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": f"image-{name}"} for name in names]


def test_containers_are_merged_by_name_and_tolerations_replaced() -> None:
    """The example of the task "Update API Objects in Place Using kubectl patch"."""
    before = pod(containers=_containers("nginx"), tolerations=[{"key": "dedicated", "value": "test-team"}])
    patch = {
        "spec": {
            "containers": [{"name": "redis", "image": "redis"}],
            "tolerations": [{"key": "disktype", "value": "ssd"}],
        }
    }
    spec = strategic_patched(POD, before, patch)["spec"]
    assert spec["containers"] == [{"name": "redis", "image": "redis"}, *_containers("nginx")]
    assert spec["tolerations"] == [{"key": "disktype", "value": "ssd"}]


def test_a_strategy_keeps_only_the_keys_that_are_retained() -> None:
    before = deployment()
    before["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_patched(DEPLOYMENT, before, patch)["spec"]["strategy"] == {"type": "Recreate"}
    with pytest.raises(BadRequest, match="retainKeys"):
        strategic_patched(DEPLOYMENT, before, {"spec": {"strategy": {"$retainKeys": [], "type": "Recreate"}}})


def test_what_is_handed_in_stays_as_it_is() -> None:
    before = pod(containers=_containers("a", "b"))
    patch = {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}}
    seen = json.dumps([before, patch])
    strategic_patched(POD, before, patch)
    assert json.dumps([before, patch]) == seen


@pytest.mark.parametrize(
    "patch",
    [
        [],
        {"spec": {"containers": [{"image": "without a key"}]}},
        {"spec": {"containers": [{"name": "a", "$patch": "turn"}]}},
        {"spec": {"$patch": "turn"}},
        {"spec": {"$setElementOrder/containers": {}}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}},
        {"spec": {"containers": ["a"]}},
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(patch: Any) -> None:
    with pytest.raises(BadRequest):
        strategic_patched(POD, pod(containers=_containers("a")), patch)


NAMES = st.sampled_from(["a", "b", "c", "d"])
ENVIRONMENT = st.lists(
    st.builds(lambda name, value: {"name": name, "value": value}, NAMES, st.sampled_from(["1", "2"])),
    max_size=3,
    unique_by=lambda one: one["name"],
)
CONTAINERS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "image": st.sampled_from(["x", "y"])}, optional={"env": ENVIRONMENT}
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda one: str(one["name"]),
)
FINALIZERS = st.lists(st.sampled_from(["x/a", "x/b", "x/c"]), max_size=3, unique=True)
LABELS = st.dictionaries(NAMES, st.sampled_from(["1", "2"]), max_size=3)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": draw(LABELS), "finalizers": draw(FINALIZERS)},
        "spec": {
            "containers": draw(CONTAINERS),
            "tolerations": [{"key": key, "operator": "Exists"} for key in draw(FINALIZERS)],
            "nodeSelector": draw(LABELS),
        },
    }


@st.composite
def patches(draw: st.DrawFn) -> dict[str, Any]:
    """Changes of every sort: merged, deleted, replaced and ordered elements, sets, maps, nulls."""
    containers = draw(CONTAINERS)
    for container in containers:
        change = draw(st.sampled_from(["merge", "merge", "delete", "no image", "replaced env", "env gone"]))
        if change == "delete":
            container.clear()
            container.update(name=draw(NAMES), **{"$patch": "delete"})
        elif change == "no image":
            container.pop("image")
        elif change == "replaced env":
            container["env"] = [{"$patch": "replace"}, *container.get("env", [])]
        elif change == "env gone":
            container["env"] = None
    if draw(st.sampled_from([False, False, True])):
        containers = [{"$patch": "replace"}, *containers]
    spec: dict[str, Any] = {"containers": containers}
    kept = [one["name"] for one in containers if "$patch" not in one]
    if draw(st.booleans()) and {"$patch": "replace"} not in containers:
        others = [name for name in draw(st.permutations(["a", "b", "c", "d"])) if name not in kept]
        spec["$setElementOrder/containers"] = [{"name": name} for name in (*kept, *others[:2])]
    metadata: dict[str, Any] = {
        "labels": draw(st.dictionaries(NAMES, st.sampled_from(["1", "3", None]), max_size=3))
    }
    if draw(st.booleans()):
        metadata["finalizers"] = draw(FINALIZERS)
    if draw(st.booleans()):
        gone = [
            finalizer for finalizer in draw(FINALIZERS) if finalizer not in metadata.get("finalizers", [])
        ]
        metadata["$deleteFromPrimitiveList/finalizers"] = gone
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(st.sampled_from([{"$patch": "replace", "e": "1"}, {"e": "1"}, None]))
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "new", "operator": "Exists"}]
    return {"metadata": metadata, "spec": spec}


@pytest.mark.skipif(
    KUBECTL is None, reason="needs kubectl: apt install kubernetes-client, or PROREUS_KUBECTL"
)
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(objects(), patches())
def test_as_kubectl_merges(before: dict[str, Any], patch: dict[str, Any]) -> None:
    theirs = _kubectl(before, patch)
    try:
        ours: Any = strategic_patched(POD, before, patch)
    except BadRequest:
        ours = None
    assert _tidy(ours) == _tidy(theirs)


def test_ports_of_a_service_are_merged_by_port() -> None:
    before = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80, "name": "old"}, {"port": 81}]}}
    patch = {"spec": {"ports": [{"port": 80, "name": "new"}, {"port": 81, "$patch": "delete"}]}}
    assert strategic_patched(SERVICE, before, patch)["spec"] == {"ports": [{"port": 80, "name": "new"}]}


def _kubectl(before: dict[str, Any], patch: dict[str, Any]) -> Any:
    """What kubectl makes of it, without a server; None where it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "object.json"
        path.write_text(json.dumps(before))
        command = [str(KUBECTL), "patch", "--local", "-f", str(path), "--type", "strategic"]
        ran = subprocess.run(
            [*command, "-p", json.dumps(patch), "-o", "json"], capture_output=True, text=True, timeout=60
        )
    return json.loads(ran.stdout) if ran.returncode == 0 else None


def _tidy(value: Any) -> Any:
    """Without empty maps and lists, which a typed client does not write, and without the orders to the merge
    that kubectl leaves standing in elements that are new."""
    if isinstance(value, dict):
        kept = {key: _tidy(one) for key, one in value.items() if key != "$patch"}
        return {key: one for key, one in kept.items() if one not in ({}, [], None)}
    return [one for one in map(_tidy, value) if one != {}] if isinstance(value, list) else value
