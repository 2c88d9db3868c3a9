"""Flags between the words of a command."""

from __future__ import annotations

import pytest

from proreus.cli.arguments import parse
from proreus.cli.cluster.argument_order import flags_first
from proreus.cli.delete import DeleteArguments
from proreus.cli.get import GetArguments


@pytest.mark.parametrize(
    "typed",
    [
        "pods a b -n web -o yaml",
        "pods -n web a -o yaml b",
        "-n web pods --output yaml a b",
        "pods -nweb a b -o=yaml",
        "pods --namespace=web a --quiet b -o yaml",
        "pods a -o yaml -n web -- b",
    ],
)
def test_names_are_found_between_flags(typed: str) -> None:
    read = parse(GetArguments, "proreus get", flags_first(GetArguments, typed.split()), "")
    assert (read.what, read.namespace, read.output) == (("pods", "a", "b"), "web", "yaml")


def test_switches_take_no_name() -> None:
    words = flags_first(GetArguments, ["pods", "-Aw", "--no-quiet", "--log_json", "a"])
    read = parse(GetArguments, "proreus get", words, "")
    assert (read.what, read.all_namespaces, read.watch) == (("pods", "a"), True, True)


def test_flags_of_other_flags_stay_flags() -> None:
    words = ["pod", "--grace-period", "0", "a", "--no-wait", "--dir", "d", "b"]
    read = parse(DeleteArguments, "proreus delete", flags_first(DeleteArguments, words), "")
    assert (read.what, read.grace_period, read.wait) == (("pod", "a", "b"), 0, False)


def test_a_flag_without_its_value_is_left_to_the_parser() -> None:
    assert flags_first(GetArguments, ["pods", "-n"]) == ["-n", "--", "pods"]
    assert flags_first(GetArguments, ["--help"]) == ["--help"]
