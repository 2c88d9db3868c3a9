"""JSON and YAML are read with one cursor; a value of JSON is of one kind only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proreus.data.cursor import Entry
from proreus.data.json_tree import read_json
from proreus.data.yaml_tree import read_documents
from proreus.model.errors import InputError

Write = Callable[[str, str | bytes], Path]

TEXT = '{"name": "a", "list": [{"size": 4}, {"size": 2.5}], "on": true, "off": null, "cpu": "250m", "n": "5"}'


def test_both_formats_answer_alike(write: Write) -> None:
    (yaml,) = read_documents(write("a.yaml", TEXT))
    for root in (read_json(write("a.json", TEXT)), yaml):
        assert root.require("name").text() == "a" and root.text_at("off", "none") == "none"
        assert [item.require("size").number() for item in root.children("list")] == [4.0, 2.5]
        assert root.truth_at("on") and not root.truth_at("off") and root.truth_at("off", default=True)
        assert root.require("cpu").quantity(scale=1000) == 250
        assert root.children("list")[0].require("size").quantity() == 4
        assert [key for key, _ in root.entries()] == ["name", "list", "on", "cpu", "n"]
        with pytest.raises(InputError, match=r"list\[1\]\.size: .*2\.5.* is not a whole number"):
            root.children("list")[1].require("size").integer()
        with pytest.raises(InputError, match=r"list\[0\]\.name: the field is missing"):
            root.children("list")[0].require("name")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda root: root.require("n").number(), "n: a number is needed here"),
        (lambda root: root.require("on").number(), "on: a number is needed here"),
        (lambda root: root.require("on").text(), "on: a text is needed here"),
        (lambda root: root.require("name").truth(), "name: true or false is needed here"),
        (lambda root: root.require("list").text(), "list: a single value is needed here"),
        (lambda root: root.entries("list"), "list: a mapping is needed here"),
        (lambda root: root.children("name"), "name: a list is needed here"),
        (lambda root: root.children(), "a list is needed here"),
    ],
)
def test_a_value_of_json_is_of_one_kind(write: Write, read: Callable[[Entry], object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(read_json(write("a.json", TEXT)))
    assert str(caught.value).endswith(message) and caught.value.file is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n oops", r"a\.json:2: not valid JSON"),
        ("[" * 100_000, "nested too deep"),
        ("9" * 10_000, "not valid JSON"),
    ],
)
def test_what_is_no_json(write: Write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_json(write("a.json", text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"), [("NaN", "nan is not a finite number"), ("1e400", "inf is not a finite number")]
)
def test_numbers_without_an_end(write: Write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_json(write("a.json", text)).number()
