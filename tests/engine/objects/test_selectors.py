"""Label and field selectors: what they choose, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.engine.objects.cells import selector_text
from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import CONFIG_MAP, EVENT, NODE, POD
from proreus.engine.objects.selectors import (
    parse_field_selector,
    parse_label_selector,
    selection,
    selector_of,
)
from tests.engine.objects.worlds import pod

LABELS = {"app": "web", "tier": "front", "size": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("missing!=web", True),
        ("app in (web, other)", True),
        ("app notin (web)", False),
        ("missing notin (a)", True),
        ("app", True),
        ("!app", False),
        ("!missing", True),
        ("size>4", True),
        ("size<5", False),
        ("empty=", True),
        ("app in (web),!missing , tier", True),
        ("example.com/app=web", False),
    ],
)
def test_labels(text: str, chosen: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is chosen


@pytest.mark.parametrize(
    "text",
    ["=", "app=web,", "app in", "app in (", "app in web", "a b", "-a", "app=b c", "app>x", ",", "app=@", "!"],
)
def test_what_is_no_label_selector(text: str) -> None:
    with pytest.raises(BadRequest, match="unable to parse requirement"):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ("metadata.name=web", True),
        ("metadata.name!=web", False),
        ("spec.nodeName=", True),
        ("spec.nodeName!=", False),
        ("metadata.namespace=default,metadata.name==web", True),
        ("spec.hostNetwork=false", True),
    ],
)
def test_fields_of_a_pod(fields: str, chosen: bool) -> None:
    assert selection(POD, "", fields).matches(pod()) is chosen


def test_fields_of_other_kinds() -> None:
    node = {"metadata": {"name": "a"}, "spec": {"unschedulable": True}}
    assert selection(NODE, "", "spec.unschedulable=true").matches(node)
    event = {"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "name": "web"}, "type": "Normal"}
    assert selection(EVENT, "", "involvedObject.name=web,type!=Warning").matches(event)
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.nodeName"):
        selection(CONFIG_MAP, "", "spec.nodeName=a")


@pytest.mark.parametrize("text", ["a", "a>b", "metadata.name"])
def test_what_is_no_field_selector(text: str) -> None:
    with pytest.raises(BadRequest, match="can't understand"):
        parse_field_selector(text)


def test_a_value_with_a_comma_is_escaped() -> None:
    (field_requirement,) = parse_field_selector(r"metadata.name=a\,b\=c")
    assert field_requirement.value == "a,b=c"


NAMES = st.sampled_from(["app", "tier", "zone"])
VALUES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, op, values: {"key": key, "operator": op, "values": values},
        NAMES,
        st.sampled_from(["In", "NotIn"]),
        VALUES,
    ),
    st.builds(
        lambda key, op: {"key": key, "operator": op}, NAMES, st.sampled_from(["Exists", "DoesNotExist"])
    ),
)


@given(st.lists(EXPRESSIONS, max_size=3), st.dictionaries(NAMES, st.sampled_from("abc")))
def test_a_selector_written_as_a_query_chooses_the_same(expressions: Any, labels: dict[str, str]) -> None:
    stated = {"matchExpressions": expressions}
    text = selector_text(stated)
    query = parse_label_selector("" if text == "<none>" else text)
    assert query.matches(labels) is selector_of(stated).matches(labels)


TERMS = st.one_of(
    st.builds(lambda key, sign, value: f"{key}{sign}{value}", NAMES, st.sampled_from(["=", "!="]), NAMES),
    st.builds(
        lambda key, sign, bound: f"{key}{sign}{bound}",
        NAMES,
        st.sampled_from("<>"),
        st.sampled_from([0, 3, 7, 2**63, 10**19]),
    ),
    st.builds(lambda sign, key: f"{sign}{key}", st.sampled_from(["", "!"]), NAMES),
    st.builds(lambda key, word: f"{key} {word} (app,3)", NAMES, st.sampled_from(["in", "notin"])),
)


@given(
    st.lists(TERMS, max_size=6),
    st.dictionaries(NAMES, st.sampled_from(["app", "tier", "0", "3", "7", "-9", ""])),
)
def test_many_terms_on_a_label_are_one_look(terms: list[str], labels: dict[str, str]) -> None:
    text = ",".join(terms)
    looked = selection(POD, text).matches({"metadata": {"labels": labels}})
    assert looked is parse_label_selector(text).matches(labels)


@given(st.lists(st.tuples(st.sampled_from(["=", "!="]), NAMES), max_size=4), NAMES)
def test_many_terms_on_a_field_are_one_look(terms: list[tuple[str, str]], name: str) -> None:
    text = ",".join(f"metadata.name{sign}{value}" for sign, value in terms)
    expected = all((name == value) is (sign == "=") for sign, value in terms)
    assert selection(POD, "", text).matches({"metadata": {"name": name}}) is expected
