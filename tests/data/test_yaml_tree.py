"""YAML keeps its lines; malformed and hostile input gives one clear error."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.data.cursor import Entry, Mapping, Scalar
from proreus.data.yaml_tree import read_documents
from proreus.model.errors import InputError

Write = Callable[[str, str | bytes], Path]


def test_values_know_their_line_and_path(write: Write) -> None:
    (document,) = read_documents(write("a.yaml", "spec:\n  items:\n  - size: 4\n  - size: none\n"))
    first, second = document.children("spec.items")
    assert first.require("size").integer() == 4
    with pytest.raises(InputError, match=r"a\.yaml:4: spec\.items\[1\]\.size: 'none' is not a number"):
        second.require("size").number()


def test_nulls_are_absent_and_documents_may_be_empty(write: Write) -> None:
    documents = read_documents(write("a.yaml", "---\n---\na:\nb: ~\nc: 'null'\n---\n"))
    assert [document.text_at("c") for document in documents] == ["null"]
    assert documents[0].get("a") is documents[0].get("b") is None


def test_anchors_and_merges(write: Write) -> None:
    text = (
        "base: &base {x: 1, y: 2}\nother: &other {x: 3}\nuse:\n  <<: [*other, *base]\n  y: 4\nsame: *base\n"
    )
    (document,) = read_documents(write("a.yaml", text))
    assert document.texts("use") == (("x", "3"), ("y", "4"))
    assert document.texts("same") == (("x", "1"), ("y", "2"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [1, 2\n", 3, "not valid YAML"),
        ("a: 1\n\tb: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' appears twice"),
        ("a: *nobody\n", 1, "has no anchor"),
        ("a: &loop [*loop]\n", 1, "has no anchor"),
        ("x: 1\n? [a]\n: 2\n", 2, "a key must be a single value"),
        ("a: {<<: 3}\n", 1, "only mappings can be merged"),
        ("{x: 1, " * 5 + "[" * 100_000, 1, "not valid YAML|nested deeper"),
        ("[" * 100_000, 1, "nested deeper"),
    ],
)
def test_malformed_input(write: Write, text: str, line: int, message: str) -> None:
    start = time.perf_counter()
    with pytest.raises(InputError, match=message) as caught:
        read_documents(write("a.yaml", text))
    assert caught.value.line == line
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 2.0


def test_control_characters_and_only_comments_are_refused(write: Write) -> None:
    with pytest.raises(InputError, match="not valid YAML"):
        read_documents(write("a.yaml", "a: \x07\n"))
    with pytest.raises(InputError, match="no YAML document"):
        read_documents(write("b.yaml", "# nothing\n"))


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda e: e.require("missing.part"), r"missing\.part: the field is missing"),
        (lambda e: e.children("text"), "text: a list is needed here"),
        (lambda e: e.entries("text"), "text: a mapping is needed here"),
        (lambda e: e.require("list").text(), "list: a single value is needed here"),
        (lambda e: e.require("text.more"), "text: a mapping is needed here"),
        (lambda e: e.truth_at("text"), "text: 'word' is neither true nor false"),
        (lambda e: e.require("number").integer(), "number: '1.5' is not a whole number"),
        (lambda e: e.require("big").integer(maximum=10), "big: '99' is above 10"),
        (lambda e: e.require("negative").number(), "negative: '-3' is negative"),
        (lambda e: e.require("text").quantity(), "text: 'word' is not a quantity"),
        (lambda e: e.require("infinite").number(), "infinite: 'inf' is not a finite number"),
    ],
)
def test_wrong_types_name_line_and_field(write: Write, read: Callable[[Entry], object], message: str) -> None:
    text = "text: word\nlist: [1]\nnumber: 1.5\nbig: 99\nnegative: -3\ninfinite: inf\n"
    (document,) = read_documents(write("a.yaml", text))
    with pytest.raises(InputError, match=message) as caught:
        read(document)
    assert caught.value.line is not None


@given(st.dictionaries(st.text("abc", min_size=1), st.text("xyz", min_size=1), max_size=5))
def test_a_tree_answers_like_a_mapping(content: dict[str, str]) -> None:
    tree = Mapping({key: Scalar(value, True, 1) for key, value in content.items()}, 1)
    root = Entry(Path("f"), "", Mapping({"top": tree}, 1))
    assert dict(root.texts("top")) == content
