"""Selectors and tolerations."""

from __future__ import annotations

import pytest

from proreus.model.node import HOSTNAME, Effect, Node, Taint, Toleration, hard_effect
from proreus.model.resources import Resources
from proreus.model.selectors import Operator, Requirement, Selector, match_labels

LABELS = {"app": "web", "tier": "", "cores": "8", "negative": "-3"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("app", Operator.IN, ("db", "web"), True),
        ("app", Operator.IN, ("db",), False),
        ("app", Operator.IN, (), False),
        ("gone", Operator.IN, ("web",), False),
        ("gone", Operator.IN, ("",), False),
        ("tier", Operator.IN, ("",), True),
        ("app", Operator.NOT_IN, ("db",), True),
        ("app", Operator.NOT_IN, ("db", "web"), False),
        ("gone", Operator.NOT_IN, ("web",), True),
        ("app", Operator.EXISTS, (), True),
        ("tier", Operator.EXISTS, (), True),
        ("gone", Operator.EXISTS, (), False),
        ("app", Operator.DOES_NOT_EXIST, (), False),
        ("tier", Operator.DOES_NOT_EXIST, (), False),
        ("gone", Operator.DOES_NOT_EXIST, (), True),
        ("cores", Operator.GT, ("7",), True),
        ("cores", Operator.GT, ("8",), False),
        ("cores", Operator.GT, ("-8",), True),
        ("negative", Operator.GT, ("-4",), True),
        ("cores", Operator.LT, ("9",), True),
        ("cores", Operator.LT, ("8",), False),
        ("gone", Operator.LT, ("9",), False),
        ("gone", Operator.GT, ("-9",), False),
        ("app", Operator.GT, ("1",), False),
        ("cores", Operator.GT, ("many",), False),
        ("cores", Operator.LT, (), False),
    ],
)
def test_every_operator(key: str, operator: Operator, values: tuple[str, ...], holds: bool) -> None:
    assert Requirement(key, operator, values).holds(LABELS) is holds


def test_all_requirements_must_hold() -> None:
    web, big = Requirement("app", Operator.IN, ("web",)), Requirement("cores", Operator.GT, ("16",))
    assert Selector((web,)).matches(LABELS)
    assert not Selector((web, big)).matches(LABELS)


def test_no_requirement_selects_everything() -> None:
    assert Selector().matches({}) and Selector().matches(LABELS)


def test_match_labels_demands_every_value() -> None:
    selector = match_labels({"app": "web", "cores": "8"})
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web"})
    assert not selector.matches({**LABELS, "cores": "16"})
    assert match_labels({"a": "1", "b": "2"}) == match_labels({"b": "2", "a": "1"})


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        (Toleration("k", "v"), Taint("k", "v"), True),
        (Toleration("k", "w"), Taint("k", "v"), False),
        (Toleration("k"), Taint("k", ""), True),
        (Toleration("k"), Taint("k", "v"), False),
        (Toleration("k", exists=True), Taint("k", "v"), True),
        (Toleration("j", exists=True), Taint("k", "v"), False),
        (Toleration(exists=True), Taint("k", "v"), True),
        (Toleration(), Taint("k", ""), False),
        (Toleration("k", "v", effect=Effect.NO_EXECUTE), Taint("k", "v", Effect.NO_EXECUTE), True),
        (Toleration("k", "v", effect=Effect.NO_EXECUTE), Taint("k", "v", Effect.NO_SCHEDULE), False),
        (Toleration("k", "v"), Taint("k", "v", Effect.PREFER_NO_SCHEDULE), True),
        (Toleration(exists=True, effect=Effect.NO_SCHEDULE), Taint("x"), True),
        (Toleration(exists=True, effect=Effect.NO_SCHEDULE), Taint("x", "", Effect.NO_EXECUTE), False),
    ],
)
def test_tolerations(toleration: Toleration, taint: Taint, tolerated: bool) -> None:
    assert toleration.tolerates(taint) is tolerated


def test_only_a_preference_is_soft() -> None:
    assert [effect for effect in Effect if not hard_effect(effect)] == [Effect.PREFER_NO_SCHEDULE]


def test_a_node_is_labelled_with_its_name_unless_it_says_otherwise() -> None:
    plain = Node("n0", Resources(), labels=(("a", "b"),))
    assert plain.label_map() == {HOSTNAME: "n0", "a": "b"}
    assert Node("n0", Resources(), labels=((HOSTNAME, "other"),)).label_map() == {HOSTNAME: "other"}
