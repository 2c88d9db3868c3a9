"""Which objects a client asks for: label selectors and field selectors, parsed once, as predicates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import EVENT, JOB, NAMESPACE, NODE, POD, REPLICA_SET, SECRET, Kind
from proreus.engine.objects.names import label_key_problem, label_value_problem
from proreus.model.selectors import Operator, Requirement, Selector

EVERYTHING = Selector()
NOTHING = Selector((Requirement("", Operator.IN, ()),))

_TOKEN = re.compile(r"\s*(==|=|!=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")
_SYMBOLS = frozenset({"==", "=", "!=", "!", "(", ")", ",", "<", ">"})
_Obj = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on one field."""

    field: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """Labels and fields that are all to match."""

    labels: Selector = EVERYTHING
    fields: tuple[tuple[FieldRequirement, Callable[[_Obj], str]], ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.labels.requirements and not self.fields

    def matches(self, obj: _Obj) -> bool:
        """Whether the object is asked for."""
        for requirement, read in self.fields:
            if (read(obj) == requirement.value) is not requirement.equal:
                return False
        return not self.labels.requirements or self.labels.matches(obj["metadata"].get("labels") or {})

    def exactly(self, field: str) -> str | None:
        """The one value that the field must have; None where several may be."""
        for requirement, _ in self.fields:
            if requirement.field == field and requirement.equal:
                return requirement.value
        return None


@lru_cache(maxsize=1024)
def selection(kind: Kind, labels: str = "", fields: str = "") -> Selection:
    """What the query parameters `labelSelector` and `fieldSelector` ask for; `BadRequest`."""
    readers = FIELDS.get(kind, _EVERY_KIND)
    wanted = []
    for requirement in parse_field_selector(fields):
        if requirement.field not in readers:
            raise BadRequest(
                f'Unable to find "{kind.api_version}, Resource={kind.plural}" that match label selector '
                f'"{labels}", field selector "{fields}": field label not supported: {requirement.field}'
            )
        wanted.append((requirement, readers[requirement.field]))
    return Selection(parse_label_selector(labels), tuple(wanted))


def selector_of(stated: Mapping[str, Any] | None) -> Selector:
    """A LabelSelector object; an absent one selects nothing, an empty one everything."""
    if stated is None:
        return NOTHING
    equal = (Requirement(key, Operator.IN, (value,)) for key, value in stated.get("matchLabels", {}).items())
    expressions = (
        Requirement(one["key"], Operator(one["operator"]), tuple(one.get("values", ())))
        for one in stated.get("matchExpressions", ())
    )
    return Selector((*equal, *expressions))


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> Selector:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`; `BadRequest`."""
    return Selector(tuple(_Parser(text).requirements()))


class _Parser:
    """The grammar of label selectors, token by token."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, at = text, list[str](), 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._refusal(f"unexpected character at {at}")
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0

    def requirements(self) -> list[Requirement]:
        """All of them, between commas."""
        found: list[Requirement] = []
        while self._at < len(self._tokens):
            found.append(self._requirement())
            if self._at < len(self._tokens):
                self._expect(",")
                if self._at == len(self._tokens):
                    raise self._refusal("found '', expected: identifier after ','")
        return found

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
                if re.fullmatch(r"[+-]?[0-9]+", bound, re.ASCII) is None:
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
        return BadRequest(f"unable to parse requirement: {why} (in the label selector {self._text!r})")


def parse_field_selector(text: str) -> tuple[FieldRequirement, ...]:
    """`a=b,c!=d`; a backslash before a comma, an equals sign or a backslash makes it part of the value."""
    found = []
    for term in re.findall(r"(?:[^,\\]|\\.|\\$)+", text):
        parts = re.fullmatch(r"((?:[^=!\\]|\\.)*?)\s*(!=|==|=)((?:[^\\]|\\.)*)", term, re.DOTALL)
        if parts is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        value = re.sub(r"\\([\\,=])", r"\1", parts[3])
        found.append(FieldRequirement(parts[1].strip(), value, parts[2] != "!="))
    return tuple(found)


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
