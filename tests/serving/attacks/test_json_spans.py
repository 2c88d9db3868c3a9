"""The kernel that finds the parts of a JSON text, beside a plain reference."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.serving.server.json_spans import part_places

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def as_array(text: bytes) -> np.ndarray:
    array = np.frombuffer(text, dtype=np.uint8)
    array.flags.writeable = False
    return array


def reference(text: bytes, start: int) -> list[int]:
    """The same, character by character."""
    places, depth, quoted, skip = [start], 0, False, False
    for i in range(start, len(text)):
        letter = chr(text[i])
        if skip:
            skip = False
        elif quoted:
            skip, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "[{":
            depth += 1
        elif letter in "]}" or letter == ",":
            depth -= letter != ","
            if depth == 0 or (depth == 1 and letter == ","):
                places.append(i)
            if depth == 0:
                return places
    return []


@given(st.lists(values, max_size=5) | st.dictionaries(st.text(), values, max_size=5), st.booleans())
def test_the_parts_are_those_of_the_value(value: object, spaced: bool) -> None:
    text = json.dumps(value, indent=1 if spaced else None, ensure_ascii=False).encode()
    places = part_places(as_array(text), 0, 100).tolist()
    assert places == reference(text, 0)
    parts = [text[a + 1 : b] for a, b in itertools.pairwise(places)]
    if isinstance(value, list) and value:
        assert [json.loads(part) for part in parts] == value


@pytest.mark.parametrize("text", [b"[", b"[1,2", b'["', b'["\\', b'["a,b]', b"{"])
def test_a_text_that_ends_first_has_no_parts(text: bytes) -> None:
    assert part_places(as_array(text), 0, 10).tolist() == [] == reference(text, 0)


def test_no_more_parts_than_asked_for() -> None:
    text = b"[" + b"1," * 50 + b"1]"
    assert len(part_places(as_array(text), 0, 51)) == 52
    assert len(part_places(as_array(text), 0, 10)) == 11
