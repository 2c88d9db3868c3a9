"""JSON bodies as values; what is wrong with one is said by field, in one line.

A parser holds up all other threads while it works. So a long body is read in portions: the long lists in it
are known beforehand (`Bulk`), their parts are found by a kernel that holds up nobody, counted before any of
them is read, and read a few at a time.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, cast

import msgspec
import numpy as np

from proreus.kernels.arrays import I64
from proreus.serving.messages import Refusal, Refused, invalid
from proreus.serving.server.json_spans import part_places

Value = TypeVar("Value")
Text = bytes | bytearray | memoryview
_PORTION = 64 * 1024
"""Bytes that are read in one go."""
_IN_ONE_GO = 1024 * 1024
"""Bytes of what cannot be read in portions: one part of a list, and all that is in no long list."""
_MOST_FIELDS = 4_096
_FIELD = re.compile(rb'[ \t\r\n]*"([a-z_]+)"[ \t\r\n]*:[ \t\r\n]*')
_LONGEST_NAME = 256
"""Bytes in which the name of a long list stands, with the white space around it."""
_SPACE = b" \t\r\n"
_CLOSES = {ord("["): ord("]"), ord("{"): ord("}")}
_PLACE = re.compile(r"\$\[(\d+)\]")


@dataclass(frozen=True)
class Bulk:
    """A list that may be long."""

    name: str
    parts: msgspec.json.Decoder[list[Any]]
    most: int
    """Parts of all lists of this name in one body."""
    keep: Callable[[list[Any]], list[Any]] | None = None
    """What is kept of parts that were read."""
    stand_in: bytes = b"[]"
    """A short list, for the rest of the body to be read with."""
    within: tuple[msgspec.json.Decoder[Any], Bulk] | None = None
    """Where its parts are objects: what reads one, and its own long list."""


def decode(decoder: msgspec.json.Decoder[Value], body: Text, *bulks: Bulk) -> Value:
    """A JSON body as a value; the refusal names the field."""
    if len(body) > _PORTION and bulks:
        return _Portions(body).object(decoder, (0, len(body)), "", bulks)
    return _read(decoder, body)


def warm_up() -> None:
    """Compile before the first long body comes."""
    part_places(_Portions(b"[]").array, 0, 1)


def _read(decoder: msgspec.json.Decoder[Value], text: Text, path: str = "", first: int = 0) -> Value:
    """One portion. path: the list that it is of, and `first` the number of its first part there."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        _refuse_value(str(error), path, first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse_text(text, str(error), path, first)


class _Portions:
    """A long body, read in portions."""

    def __init__(self, body: Text) -> None:
        self._body = memoryview(body)
        self.array = np.frombuffer(body, dtype=np.uint8)
        self.array.flags.writeable = False  # of either kind of body: the kernel is compiled for one
        self._counts: Counter[str] = Counter()

    def object(
        self, decoder: msgspec.json.Decoder[Value], place: tuple[int, int], path: str, bulks: Sequence[Bulk]
    ) -> Value:
        """The object between two places: its long lists in portions, the rest in one go."""
        start, stop = self._stripped(*place)
        if start == stop or self._body[start] != ord("{"):
            return _read(decoder, self._in_one_go(start, stop, path), path)
        places = part_places(self.array[:stop], start, _MOST_FIELDS)
        self._check_end(places, stop, path)
        rest: list[bytes] = []
        lists: dict[str, tuple[Bulk, int, int]] = {}
        for before, after in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
            field = _FIELD.match(bytes(self._body[before + 1 : min(after, before + 1 + _LONGEST_NAME)]))
            named = "" if field is None else field[1].decode()
            bulk = next((bulk for bulk in bulks if bulk.name == named), None)
            begin = before + 1 if field is None else before + 1 + field.end()
            if bulk is not None and begin < after and self._body[begin] == ord("["):
                lists[named] = (bulk, begin, after)
                rest.append(b'"%s":%s' % (named.encode(), bulk.stand_in))
            else:
                rest.append(bytes(self._in_one_go(before + 1, after, named or path)))
        beside = b"{" + b",".join(rest) + b"}"
        if len(beside) > _IN_ONE_GO:
            raise Refused(Refusal.TOO_LARGE, f"{len(beside)} bytes beside its lists", path or "body")
        value = _read(decoder, beside, path)
        found = {
            name: self._list(bulk, (begin, end), f"{path}.{name}" if path else name)
            for name, (bulk, begin, end) in lists.items()
        }
        return cast(Value, msgspec.structs.replace(cast(msgspec.Struct, value), **found))

    def _list(self, bulk: Bulk, place: tuple[int, int], path: str) -> list[Any]:
        start, stop = place
        room = bulk.most - self._counts[bulk.name]
        places = part_places(self.array[:stop], start, room + 1)
        if len(places) > room + 1 and not self._blank(start + 1, int(places[1])):
            raise Refused(Refusal.TOO_LARGE, f"more than {bulk.most} of them", path)
        self._check_end(places, stop, path)
        if len(places) == 2 and self._blank(start + 1, int(places[1])):
            raise invalid(path, "is empty")
        self._counts[bulk.name] += len(places) - 1
        return list(self._parts(bulk, places, path))

    def _parts(self, bulk: Bulk, places: I64, path: str) -> Iterator[Any]:
        at, last = 0, len(places) - 1
        while at < last:
            # As many whole parts as fit into one portion, one at least.
            end = int(np.searchsorted(places, places[at] + _PORTION, side="right")) - 1
            end = min(max(end, at + 1), last)
            begin, stop = int(places[at]) + 1, int(places[end])
            if bulk.within is not None and stop - begin > _PORTION:
                yield self.object(bulk.within[0], (begin, stop), f"{path}[{at}]", (bulk.within[1],))
            else:
                text = b"[" + bytes(self._in_one_go(begin, stop, f"{path}[{at}]")) + b"]"
                parts = _read(bulk.parts, text, path, at)
                if len(parts) != end - at:
                    raise invalid(f"{path}[{at}]", "is not JSON: a part of the list is empty")
                yield from parts if bulk.keep is None else bulk.keep(parts)
            at = end

    def _check_end(self, places: I64, stop: int, path: str) -> None:
        """The last place must be the end of the list or object, with nothing behind it."""
        if len(places) < 2 or self._body[places[-1]] != _CLOSES[self._body[places[0]]]:
            raise invalid(path or "body", "is not JSON: its end is missing, or it has too many parts")
        if not self._blank(int(places[-1]) + 1, stop):
            raise invalid(path or "body", "is not JSON: something stands behind its end")

    def _in_one_go(self, start: int, stop: int, path: str) -> memoryview:
        if stop - start > _IN_ONE_GO:
            raise Refused(
                Refusal.TOO_LARGE,
                f"is {stop - start} bytes long, at most {_IN_ONE_GO} are read",
                path or "body",
            )
        return self._body[start:stop]

    def _blank(self, start: int, stop: int) -> bool:
        start, stop = self._stripped(start, stop)
        return start == stop

    def _stripped(self, start: int, stop: int) -> tuple[int, int]:
        """Without white space around it, of which there may be little."""
        first, last = start, stop
        while start < stop and start - first < _PORTION and self._body[start] in _SPACE:
            start += 1
        while start < stop and last - stop < _PORTION and self._body[stop - 1] in _SPACE:
            stop -= 1
        return start, stop


def _refuse_value(message: str, lead: str, first: int) -> NoReturn:
    """msgspec's complaint with the field in front: `state[2]: expected float, got str`."""
    message, _, path = message.replace("`", "").partition(" - at ")
    path = _placed(path, lead, first)
    for opening, says in (
        ("Object missing required field ", "is missing"),
        ("Object contains unknown field ", "is not a field of this request"),
    ):
        if message.startswith(opening):
            name = message.removeprefix(opening)
            raise invalid(f"{path}.{name}" if path else name, says)
    raise invalid(path or "body", message[:1].lower() + message[1:])


def _placed(path: str, lead: str, first: int) -> str:
    """A path within a portion as a path within the body."""
    if lead:
        path = _PLACE.sub(lambda match: f"{lead}[{int(match[1]) + first}]", path, count=1)
        path = path if path.startswith(lead) else f"{lead}{path.removeprefix('$')}"
    return path.removeprefix("$").removeprefix(".")


def _refuse_text(text: Text, problem: str, lead: str, first: int) -> NoReturn:
    """Not JSON. Where it is because of NaN or Infinity, which some programs write, say in which field."""
    place = None
    if len(text) <= 2 * _PORTION:  # to look for it takes far longer than to read it
        try:
            place = _not_finite(json.loads(bytes(text)))
        except (ValueError, RecursionError):
            place = None
    if place is not None:
        place = _placed(f"${place}" if place.startswith("[") else place, lead, first)
        raise invalid(place or "body", "is not a finite number; JSON has no NaN and no Infinity")
    raise invalid(lead or "body", f"is not JSON: {problem}")


def _not_finite(value: Any, path: str = "") -> str | None:
    """Where the first NaN or infinity stands; None where there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return path
    children: Iterator[tuple[str, Any]] = iter(())
    if isinstance(value, dict):
        children = ((f"{path}.{key}" if path else key, item) for key, item in value.items())
    elif isinstance(value, list):
        children = ((f"{path}[{index}]", item) for index, item in enumerate(value))
    return next((found for at, item in children if (found := _not_finite(item, at)) is not None), None)
