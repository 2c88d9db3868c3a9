"""Server-side apply: who owns which field, what goes when nobody states it, and who is in the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.engine.objects.errors import BadRequest, Conflict
from proreus.engine.objects.kinds import CONFIG_MAP, DEPLOYMENT
from proreus.engine.objects.patch.managed_fields import as_fields, leaves, paths_of
from proreus.engine.objects.registry import PatchType, Registry
from proreus.engine.objects.schema.structure import Shaped, shaped
from tests.engine.objects.worlds import deployment, with_registry


def _stated(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def _apply(registry: Registry, stated: dict[str, Any], manager: str, **options: Any) -> dict[str, Any]:
    return await registry.apply(
        DEPLOYMENT, "default", "web", shaped(DEPLOYMENT, stated), manager=manager, **options
    )


def _owner(obj: dict[str, Any], manager: str) -> dict[str, Any]:
    return next(
        managed_field
        for managed_field in obj["metadata"]["managedFields"]
        if managed_field["manager"] == manager
    )


def test_what_is_applied_first_is_made_and_owned() -> None:
    async def scenario(registry: Registry) -> None:
        made = await _apply(registry, deployment(), "kubectl")
        owner = _owner(made, "kubectl")
        assert (owner["operation"], owner["fieldsType"]) == ("Apply", "FieldsV1")
        spec = owner["fieldsV1"]["f:spec"]
        assert spec["f:replicas"] == {} and spec["f:selector"] == {}
        container = spec["f:template"]["f:spec"]["f:containers"]['k:{"name":"main"}']
        assert container["."] == {} and container["f:image"] == {}
        assert "f:strategy" not in spec, "what was only filled in is nobody's"
        again = await _apply(registry, deployment(), "kubectl")
        assert again == made, "the same again changes nothing"

    with_registry(scenario)


def test_a_field_of_another_is_refused_and_can_be_forced() -> None:
    async def scenario(registry: Registry) -> None:
        await _apply(registry, deployment(replicas=2), "kubectl")
        with pytest.raises(Conflict) as refused:
            await _apply(registry, _stated(replicas=5), "scaler")
        assert refused.value.causes[0].field == ".spec.replicas"
        assert refused.value.causes[0].reason == "FieldManagerConflict"
        assert 'conflict with "kubectl" using apps/v1' in refused.value.message
        shared = await _apply(registry, _stated(replicas=2), "scaler")
        assert _owner(shared, "scaler")["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
        forced = await _apply(registry, _stated(replicas=5), "scaler", force=True)
        assert forced["spec"]["replicas"] == 5
        assert "f:replicas" not in _owner(forced, "kubectl")["fieldsV1"]["f:spec"]

    with_registry(scenario)


def test_what_is_no_longer_stated_goes_unless_another_owns_it() -> None:
    async def scenario(registry: Registry) -> None:
        first = deployment()
        first["metadata"]["labels"] = {"mine": "1", "both": "1"}
        await _apply(registry, first, "kubectl")
        await _apply(registry, {**_stated(), "metadata": {"name": "web", "labels": {"both": "1"}}}, "other")
        second = deployment()
        second["metadata"]["labels"] = {}
        left = await _apply(registry, second, "kubectl")
        assert left["metadata"]["labels"] == {"both": "1"}

    with_registry(scenario)


def test_containers_are_merged_and_removed_by_name() -> None:
    async def scenario(registry: Registry) -> None:
        await _apply(registry, deployment(), "kubectl")
        side = {"name": "side", "image": "proxy:1"}
        template = {"spec": {"containers": [side]}}
        both = await _apply(registry, _stated(template=template), "mesh")
        names = [container["name"] for container in both["spec"]["template"]["spec"]["containers"]]
        assert names == ["main", "side"]
        left = await _apply(registry, _stated(), "mesh")
        assert [container["name"] for container in left["spec"]["template"]["spec"]["containers"]] == ["main"]

    with_registry(scenario)


def test_a_plain_write_takes_what_it_changes() -> None:
    async def scenario(registry: Registry) -> None:
        await _apply(registry, deployment(replicas=2), "kubectl")
        scaled = await registry.patch(
            DEPLOYMENT, "default", "web", {"spec": {"replicas": 7}}, PatchType.MERGE, manager="kubectl-scale"
        )
        assert _owner(scaled, "kubectl-scale")["operation"] == "Update"
        with pytest.raises(Conflict, match="kubectl-scale"):
            await _apply(registry, deployment(replicas=2), "kubectl")

    with_registry(scenario)


def test_what_was_made_before_the_first_apply_has_an_owner() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(DEPLOYMENT, deployment(replicas=2))
        with pytest.raises(Conflict, match="before-first-apply"):
            await _apply(registry, deployment(replicas=3), "kubectl")
        applied = await _apply(registry, deployment(replicas=3), "kubectl", force=True)
        assert applied["spec"]["replicas"] == 3

    with_registry(scenario)


def test_an_element_without_its_key_is_refused() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(DEPLOYMENT, deployment())
        nameless = _stated(template={"spec": {"containers": [{"image": "a"}]}})
        with pytest.raises(BadRequest, match='omits key field "name"'):
            await _apply(registry, nameless, "kubectl")

    with_registry(scenario)


DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123"), max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), DATA), min_size=1, max_size=5))
def test_the_object_is_what_its_owners_last_stated(turns: list[tuple[str, dict[str, str]]]) -> None:
    """With force, each key has the value that was applied last by whoever still states it."""

    async def scenario(registry: Registry) -> dict[str, Any]:
        left: dict[str, Any] = {}
        for manager, data in turns:
            left = await registry.apply(
                CONFIG_MAP, "default", "c", Shaped({"data": data}), manager=manager, force=True
            )
        return left

    held: dict[str, dict[str, str]] = {"one": {}, "two": {}}
    for manager, data in turns:
        other = held["two" if manager == "one" else "one"]
        for key, value in data.items():
            if other.get(key, value) != value:
                del other[key]  # taken by force
        held[manager] = dict(data)
    assert with_registry(scenario).get("data", {}) == {**held["one"], **held["two"]}


@given(DATA, st.integers(0, 9))
def test_paths_are_read_as_they_were_written(labels: dict[str, str], replicas: int) -> None:
    obj = deployment(replicas=replicas)
    obj["metadata"]["labels"] = labels
    paths = set(leaves(DEPLOYMENT, obj))
    assert paths_of(as_fields(paths)) == paths


UNREADABLE: list[Any] = [
    None,
    "x",
    ["f:data"],
    {"f:data": None, "f:spec": 1},
    {"": {}, "x": {}, "k:": {}, "k:[]": {}, "k:{": {}, "v:": {}, "v:nan": {}},
    {".": {}},
    {"f:data": {"k:" + "[" * 5_000: {}}},
]


@pytest.mark.parametrize("fields", UNREADABLE, ids=lambda fields: str(fields)[:40])
def test_owners_that_cannot_be_read_own_nothing(fields: Any) -> None:
    """Any writer may have left them: later writes of any sort go on, and note their own."""
    entry = {"manager": "odd", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}
    made = {"metadata": {"name": "a", "namespace": "default", "managedFields": [entry]}, "data": {"a": "1"}}

    async def scenario(registry: Registry) -> None:
        await registry.create(CONFIG_MAP, made)
        patch = {"data": {"b": "2"}}
        await registry.patch(CONFIG_MAP, "default", "a", patch, PatchType.MERGE, manager="patcher")
        stated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "3"}}
        applied = await registry.apply(
            CONFIG_MAP, "default", "a", shaped(CONFIG_MAP, stated), manager="applier"
        )
        assert applied["data"] == {"a": "3", "b": "2"}
        assert _owner(applied, "applier")["fieldsV1"] == {"f:data": {"f:a": {}}}
        assert _owner(applied, "patcher")["fieldsV1"] == {"f:data": {"f:b": {}}}

    with_registry(scenario)
