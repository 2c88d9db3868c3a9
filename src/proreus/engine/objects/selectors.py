"""Which objects a client asks for: label selectors and field selectors, parsed once, as predicates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, assert_never

from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import EVENT, JOB, NAMESPACE, NODE, POD, REPLICA_SET, SECRET, Kind
from proreus.engine.objects.names import label_key_problem, label_value_problem
from proreus.engine.objects.offload import offload
from proreus.model.selectors import Operator, Requirement, Selector

EVERYTHING = Selector()
NOTHING = Selector((Requirement("", Operator.IN, ()),))

_TOKEN = re.compile(r"\s*(==|=|!=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")
_SYMBOLS = frozenset({"==", "=", "!=", "!", "(", ")", ",", "<", ">"})
_Obj = Mapping[str, Any]
_DESK_WEIGHT = 4
"""A byte of a selector takes as long as so many of a body."""
_LONGEST_KEPT = 1024
"""Longer queries are read anew each time: a thousand of them would fill the memory."""
_LONGEST_SHOWN = 200
_LONGEST_NUMBER = 20
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on one field."""

    field: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    """All conditions on one label or field together, however many were written."""

    must: frozenset[str] | None = None
    """One of these, where there must be one."""
    must_not: frozenset[str] = frozenset()
    there: bool | None = None
    """Whether it must be there, or must not; None: either."""
    others: tuple[Requirement, ...] = ()
    """Bounds on numbers; of each sort the tightest."""

    def meets(self, value: str | None) -> bool:
        """Whether a label of that value, None where it is missing, is what was asked for."""
        if value is None:
            return self.must is None and not self.there and not self.others
        return (
            self.there is not False
            and (self.must is None or value in self.must)
            and value not in self.must_not
            and all(bound.holds({bound.key: value}) for bound in self.others)
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """Labels and fields that are all to match: a look at each that an object has, however long the query."""

    labels: Mapping[str, _Wanted]
    needed: frozenset[str]
    """Labels that must be there."""
    fields: tuple[tuple[_Wanted, Callable[[_Obj], str]], ...]

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.labels and not self.fields

    def matches(self, obj: _Obj) -> bool:
        """Whether the object is asked for."""
        for wanted, read in self.fields:
            if not wanted.meets(read(obj)):
                return False
        if not self.labels:
            return True
        stated = obj["metadata"].get("labels") or {}
        if len(self.labels) <= len(stated):
            return all(wanted.meets(stated.get(key)) for key, wanted in self.labels.items())
        if len(self.needed) > len(stated) or not self.needed <= stated.keys():
            return False
        return all(self.labels[key].meets(value) for key, value in stated.items() if key in self.labels)


def selection(kind: Kind, labels: str = "", fields: str = "") -> Selection:
    """What the query parameters `labelSelector` and `fieldSelector` ask for; `BadRequest`."""
    short = len(labels) + len(fields) <= _LONGEST_KEPT
    return _kept_selection(kind, labels, fields) if short else _selection(kind, labels, fields)


async def selection_asked(kind: Kind, labels: str = "", fields: str = "") -> Selection:
    """As `selection`; one of thousands of terms takes tens of milliseconds, and is read beside the loop."""
    size = _DESK_WEIGHT * (len(labels) + len(fields))
    return await offload(size, lambda: selection(kind, labels, fields))


def _selection(kind: Kind, labels: str, fields: str) -> Selection:
    readers = FIELDS.get(kind, _EVERY_KIND)
    by_field: dict[str, list[FieldRequirement]] = {}
    for requirement in parse_field_selector(fields):
        if requirement.field not in readers:
            raise BadRequest(
                f'Unable to find "{kind.api_version}, Resource={kind.plural}" that match label selector '
                f'"{labels[:_LONGEST_SHOWN]}", field selector "{fields[:_LONGEST_SHOWN]}": field label not '
                f"supported: {requirement.field[:_LONGEST_SHOWN]}"
            )
        by_field.setdefault(requirement.field, []).append(requirement)
    by_label: dict[str, list[Requirement]] = {}
    for label in parse_label_selector(labels).requirements:
        by_label.setdefault(label.key, []).append(label)
    wanted = {key: _together(requirements) for key, requirements in by_label.items()}
    return Selection(
        MappingProxyType(wanted),
        frozenset(key for key, requirement in wanted.items() if not requirement.meets(None)),
        tuple((_of_field(requirements), readers[field]) for field, requirements in by_field.items()),
    )


_kept_selection = lru_cache(maxsize=1024)(_selection)


def _of_field(requirements: list[FieldRequirement]) -> _Wanted:
    equal = {requirement.value for requirement in requirements if requirement.equal}
    must = frozenset(equal) if len(equal) == 1 else frozenset[str]()
    return _Wanted(
        must if equal else None,
        frozenset(requirement.value for requirement in requirements if not requirement.equal),
    )


def _together(requirements: list[Requirement]) -> _Wanted:
    """What all of them on one label come to."""
    must: frozenset[str] | None = None
    must_not: set[str] = set()
    there: set[bool] = set()
    bounds: dict[Operator, Requirement] = {}
    for requirement in requirements:
        match requirement.operator:
            case Operator.IN:
                must = frozenset(requirement.values) if must is None else must & frozenset(requirement.values)
            case Operator.NOT_IN:
                must_not |= set(requirement.values)
            case Operator.EXISTS:
                there.add(True)
            case Operator.DOES_NOT_EXIST:
                there.add(False)
            case Operator.GT | Operator.LT:
                bounds[requirement.operator] = _tighter(bounds.get(requirement.operator), requirement)
            case _:
                assert_never(requirement.operator)
    if len(there) == 2:  # there and not there: nothing is both
        must = frozenset()
    return _Wanted(
        must, frozenset(must_not), next(iter(there)) if len(there) == 1 else None, tuple(bounds.values())
    )


def _tighter(first: Requirement | None, second: Requirement) -> Requirement:
    """The bound that lets less through; one that is no 64-bit number lets nothing."""
    if first is None or not -_INT64 <= int(second.values[0]) < _INT64:
        return second
    if not -_INT64 <= int(first.values[0]) < _INT64:
        return first
    choose = max if first.operator is Operator.GT else min
    return choose(first, second, key=lambda requirement: int(requirement.values[0]))


def selector_of(stated: Mapping[str, Any] | None) -> Selector:
    """A LabelSelector object; an absent one selects nothing, an empty one everything."""
    if stated is None:
        return NOTHING
    equal = (Requirement(key, Operator.IN, (value,)) for key, value in stated.get("matchLabels", {}).items())
    expressions = (
        Requirement(
            match_expression["key"],
            Operator(match_expression["operator"]),
            tuple(match_expression.get("values", ())),
        )
        for match_expression in stated.get("matchExpressions", ())
    )
    return Selector((*equal, *expressions))


def parse_label_selector(text: str) -> Selector:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`; `BadRequest`."""
    return Selector(tuple(_Parser(text).requirements()))


class _Parser:
    """The grammar of label selectors, token by token."""

    def __init__(self, text: str) -> None:
        text = text.rstrip()
        self._text, self._tokens, at = text, list[str](), 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._refusal(f"unexpected character at {at}")
            self._tokens.append(match[1])
            at = match.end()
        self._at = 0

    def requirements(self) -> list[Requirement]:
        """All of them, between commas."""
        requirements: list[Requirement] = []
        while self._at < len(self._tokens):
            requirements.append(self._requirement())
            if self._at < len(self._tokens):
                self._expect(",")
                if self._at == len(self._tokens):
                    raise self._refusal("found '', expected: identifier after ','")
        return requirements

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), Operator.DOES_NOT_EXIST)
        key = self._key()
        match self._peek():
            case "" | ",":
                return Requirement(key, Operator.EXISTS)
            case "=" | "==":
                self._next()
                return Requirement(key, Operator.IN, (self._value(),))
            case "!=":
                self._next()
                return Requirement(key, Operator.NOT_IN, (self._value(),))
            case "in" | "notin" as word:
                self._next()
                operator = Operator.IN if word == "in" else Operator.NOT_IN
                return Requirement(key, operator, self._values())
            case "<" | ">" as sign:
                self._next()
                bound = self._value()
                if len(bound) > _LONGEST_NUMBER or re.fullmatch(r"[+-]?[0-9]+", bound, re.ASCII) is None:
                    raise self._refusal(f'"{bound}" is not a whole number')
                return Requirement(key, Operator.GT if sign == ">" else Operator.LT, (bound,))
            case other:
                raise self._refusal(f"found '{other}', expected: in, notin, =, ==, !=, <, >")

    def _values(self) -> tuple[str, ...]:
        self._expect("(")
        values = [self._value()]
        while self._peek() == ",":
            self._next()
            values.append(self._value())
        self._expect(")")
        return tuple(sorted(set(values)))

    def _key(self) -> str:
        key = self._next()
        if key in _SYMBOLS or not key:
            raise self._refusal(f"found '{key}', expected: !, identifier, or 'end of string'")
        problem = label_key_problem(key)
        if problem:
            raise self._refusal(f'key: Invalid value: "{key}": {problem}')
        return key

    def _value(self) -> str:
        if self._peek() in ("", ",", ")"):
            return ""
        value = self._next()
        if value in _SYMBOLS:
            raise self._refusal(f"found '{value}', expected: identifier")
        problem = label_value_problem(value)
        if problem:
            raise self._refusal(f'values: Invalid value: "{value}": {problem}')
        return value

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._refusal(f"found '{self._peek()}', expected: '{sign}'")
        self._next()

    def _refusal(self, why: str) -> BadRequest:
        return BadRequest(f"unable to parse requirement: {why} (in the label selector {self._text!r:.200})")


def parse_field_selector(text: str) -> tuple[FieldRequirement, ...]:
    """`a=b,c!=d`; a backslash before a comma, an equals sign or a backslash makes it part of the value."""
    field_requirements = []
    for term in re.findall(r"(?:[^,\\]|\\.|\\$)+", text):
        parts = re.fullmatch(r"((?:[^=!\\]|\\.)*?)\s*(!=|==|=)((?:[^\\]|\\.)*)", term, re.DOTALL)
        if parts is None:
            raise BadRequest(f"invalid selector: '{text:.200}'; can't understand '{term:.200}'")
        value = re.sub(r"\\([\\,=])", r"\1", parts[3])
        field_requirements.append(FieldRequirement(parts[1].strip(), value, parts[2] != "!="))
    return tuple(field_requirements)


def _at(*path: str, default: str = "") -> Callable[[_Obj], str]:
    """The field at that path as text, as Go prints it."""

    def read(obj: _Obj) -> str:
        value: Any = obj
        for key in path:
            value = value.get(key)
            if value is None:
                return default
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read


def _stated(*paths: str, **defaults: str) -> Mapping[str, Callable[[_Obj], str]]:
    plain = {path: _at(*path.split(".")) for path in ("metadata.name", "metadata.namespace", *paths)}
    given = {path: _at(*path.split("__"), default=value) for path, value in defaults.items()}
    return MappingProxyType(plain | {path.replace("__", "."): read for path, read in given.items()})


_EVERY_KIND = _stated()
FIELDS: Mapping[Kind, Mapping[str, Callable[[_Obj], str]]] = MappingProxyType(
    {
        POD: _stated(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
            spec__hostNetwork="false",
        ),
        NODE: _stated(spec__unschedulable="false"),
        NAMESPACE: _stated("status.phase"),
        EVENT: _stated(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ),
        SECRET: _stated("type"),
        REPLICA_SET: _stated(status__replicas="0"),
        JOB: _stated(status__successful="0"),
    }
)
"""By kind, the fields that may be selected by: those of the real API server."""
