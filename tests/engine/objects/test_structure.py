"""The table of fields against the official schemas, and objects against the table."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import CONFIG_MAP, DEPLOYMENT, KINDS, POD
from proreus.engine.objects.schema.fields import definitions
from proreus.engine.objects.schema.structure import shaped
from tests.engine.objects.official_fields import table
from tests.engine.objects.worlds import deployment, pod


def test_the_table_of_fields_is_what_the_official_schemas_say() -> None:
    assert (files("proreus.engine.objects.schema") / "fields.txt").read_text() == table()


def test_every_kind_and_every_type_in_the_table_is_defined() -> None:
    known = definitions()
    assert {kind.kind for kind in KINDS} <= set(known)
    for definition in known.values():
        for field in definition.fields.values():
            inner = field.type
            while inner.of is not None:
                inner = inner.of
            assert not inner.definition or inner.definition in known, (definition.name, field.name)


def test_an_object_of_the_right_structure_is_handed_back_as_it_is() -> None:
    for kind, obj in ((POD, pod()), (DEPLOYMENT, deployment())):
        assert shaped(kind, obj).object is obj


@pytest.mark.parametrize(
    ("amount", "read"),
    [
        (1, "1"),
        (0.5, "0.5"),
        (2.0, "2"),
        (100, "100"),
        (1e21, "1" + "0" * 21),
        (1e-7, "0.0000001"),
        ("1Gi", "1Gi"),
    ],
)
def test_amounts_are_text(amount: Any, read: str) -> None:
    asked = pod()
    asked["spec"]["containers"][0]["resources"] = {"limits": {"cpu": amount}}
    assert shaped(POD, asked).object["spec"]["containers"][0]["resources"] == {"limits": {"cpu": read}}
    assert asked["spec"]["containers"][0]["resources"] == {"limits": {"cpu": amount}}


def test_an_amount_is_no_truth_value() -> None:
    asked = pod()
    asked["spec"]["containers"][0]["resources"] = {"limits": {"cpu": True}}
    with pytest.raises(BadRequest, match=r"bool into .*limits\.cpu of type resource\.Quantity"):
        shaped(POD, asked)


def test_nulls_and_unknown_fields_go_and_the_unknown_are_named() -> None:
    odd = pod(hostname=None, tpyo=1)
    odd["metadata"]["creationTimestamp"] = None
    odd["spec"]["containers"][0]["imagee"] = "x"
    read = shaped(POD, odd)
    assert read.object == pod()
    assert read.unknown == ("spec.containers[0].imagee", "spec.tpyo")
    assert odd["spec"]["hostname"] is None, "what was handed in is as it was"


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (
            "replicas",
            "two",
            "cannot unmarshal string into Go struct field Deployment.spec.replicas of type int32",
        ),
        ("replicas", 2**31, "number 2147483648"),
        ("replicas", 1.5, "number 1.5"),
        ("template", [], "array into Go struct field Deployment.spec.template of type v1.PodTemplateSpec"),
        ("selector", {"matchLabels": {"a": 1}}, "Deployment.spec.selector.matchLabels.a of type string"),
        ("paused", "true", "of type bool"),
    ],
)
def test_a_wrong_type_is_refused_with_its_path(place: str, value: Any, told: str) -> None:
    odd = deployment()
    odd["spec"][place] = value
    with pytest.raises(BadRequest) as refused:
        shaped(DEPLOYMENT, odd)
    assert told in refused.value.message


def test_a_moment_must_be_one() -> None:
    odd = {"metadata": {"name": "a", "creationTimestamp": "yesterday"}}
    with pytest.raises(BadRequest, match=r"of type v1\.Time"):
        shaped(CONFIG_MAP, odd)
