"""JSON patches and merge patches: the documents' own cases, and round trips."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.engine.objects.errors import BadRequest, Conflict, Invalid, TooLarge
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.patch.json_patch import json_patched
from proreus.engine.objects.patch.merge_patch import merge_patched
from proreus.engine.objects.registry import PatchType, Registry
from tests.engine.objects.worlds import pod, with_registry

# RFC 7386, appendix A, of the cases whose patch is an object; wrapped, since ours are always objects.
MERGE_CASES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), MERGE_CASES)
def test_merge_patches_as_the_standard_has_them(target: Any, patch: Any, result: Any) -> None:
    assert merge_patched(target, patch) == result


SCALARS = st.one_of(st.booleans(), st.integers(-5, 5), st.text("ab~/", max_size=3))
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=3), inner, max_size=3)
    ),
)
OBJECTS = st.dictionaries(st.text("abc~/", max_size=3), TREES, max_size=4)


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from one to the other."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        if isinstance(value, dict) and isinstance(before.get(key), dict):
            patch[key] = _difference(before[key], value)
        elif key not in before or before[key] != value or type(before[key]) is not type(value):
            patch[key] = value
    return patch


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_leads_from_one_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    seen = json.dumps(before)
    assert json.dumps(merge_patched(before, _difference(before, after)), sort_keys=True) == json.dumps(
        after, sort_keys=True
    )
    assert json.dumps(before) == seen


@given(OBJECTS, OBJECTS)
def test_a_json_patch_leads_from_one_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    seen = json.dumps(before)
    assert json_patched(before, jsonpatch.make_patch(before, after).patch) == after
    assert json.dumps(before) == seen


@pytest.mark.parametrize(
    "operations",
    [
        {},
        "x",
        [1],
        [{"op": "turn", "path": "/a"}],
        [{"op": "add"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "replace", "path": "", "value": 1}],
        [{"op": "add", "path": "/a" * place, "value": {}} for place in range(1, 70)],
    ],
)
def test_a_json_patch_that_makes_no_sense_is_refused(operations: Any) -> None:
    with pytest.raises(BadRequest):
        json_patched({"metadata": {"name": "a"}}, operations)


@pytest.mark.parametrize(
    ("operations", "says"),
    [
        ([{"op": "add", "path": "/a", "value": 1}] * 10_001, "10000, got 10001"),
        ([{"op": "copy", "from": "", "path": f"/x{place}"} for place in range(40)], "1500000 bytes"),
    ],
)
def test_a_json_patch_is_bounded(operations: Any, says: str) -> None:
    with pytest.raises(TooLarge, match=says):
        json_patched({"metadata": {"name": "a"}}, operations)


POINTERS = st.lists(
    st.sampled_from(["a", "b", "0", "1", "-", "-1", "01", "\u0661", "~", "/", ""]), max_size=3
).map(lambda steps: "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps))
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]),
        "path": POINTERS,
        "from": POINTERS,
        "value": TREES,
    }
)


@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_any_json_patch_makes_an_object_or_is_refused(before: dict[str, Any], operations: list[Any]) -> None:
    """Nothing else is raised, and neither the object nor the operations change: they may be tried anew."""
    seen = json.dumps([before, operations])
    with suppress(BadRequest, Invalid, TooLarge):  # what clients are told
        assert isinstance(json_patched(before, operations), dict)
    assert json.dumps([before, operations]) == seen


def test_a_json_patch_that_nests_by_copies_is_refused_at_its_depth() -> None:
    start = {"op": "add", "path": "/x", "value": {"a": {}}}
    step = [{"op": "move", "from": "/x", "path": "/y"}, {"op": "add", "path": "/x", "value": {}}]
    nest = [*step, {"op": "move", "from": "/y", "path": "/x/a"}]
    with pytest.raises(BadRequest, match="deeper than 64"):
        json_patched({"metadata": {}}, [start, *(nest * 1_000)])


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/b"},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "move", "from": "/l", "path": "/l/0"},
        {"op": "copy", "from": "/b", "path": "/c"},
    ],
)
def test_a_json_patch_that_fails_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        json_patched({"a": 1, "l": []}, [operation])


def test_a_patch_of_a_stated_version_holds_for_that_version_only() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        version = made["metadata"]["resourceVersion"]
        patch: dict[str, Any] = {"metadata": {"labels": {"a": "1"}, "resourceVersion": version}}
        for how in (PatchType.MERGE, PatchType.STRATEGIC):
            changed = await registry.patch(POD, "default", "web", patch, how)
            assert changed["metadata"]["labels"]["a"] == "1"
            patch["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"]
            patch["metadata"]["labels"]["b"] = "2"
        with pytest.raises(Conflict):
            await registry.patch(
                POD, "default", "web", {"metadata": {"resourceVersion": version}}, PatchType.MERGE
            )

    with_registry(scenario)


def test_a_patch_cannot_take_what_the_system_sets() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        patch = [
            {"op": "remove", "path": "/metadata/uid"},
            {"op": "remove", "path": "/metadata/creationTimestamp"},
            {"op": "replace", "path": "/metadata/generation", "value": 9},
            {"op": "add", "path": "/status/phase", "value": "Running"},
            {"op": "add", "path": "/metadata/deletionTimestamp", "value": "2026-01-01T00:00:00Z"},
        ]
        assert await registry.patch(POD, "default", "web", patch, PatchType.JSON) == made

    with_registry(scenario)
