"""Resource amounts as Kubernetes writes them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.model.resources import BASE_COLUMNS, COL_DISK, COL_PODS, Resources, parse_quantity

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


@pytest.mark.parametrize(
    ("text", "scale", "expected"),
    [
        ("0", 1, 0),
        ("250m", 1000, 250),
        ("0.1", 1000, 100),
        (".5", 1000, 500),
        ("2", 1000, 2000),
        (2, 1000, 2000),
        (0.5, 1000, 500),
        ("1e3", 1, 1000),
        ("12E2", 1, 1200),
        ("+3", 1, 3),
        (" 1Gi ", 1, 2**30),
        ("1.5Gi", 1, 3 * 2**29),
        ("100M", 1, 10**8),
        ("1m", 1, 1),
        ("1001m", 1, 2),
        ("1n", 1000, 1),
        ("128974848", 1, 128974848),
    ],
)
def test_quantities(text: object, scale: int, expected: int) -> None:
    assert parse_quantity(text, scale=scale) == expected


@given(
    digits=st.decimals(0, 1000, places=3),
    suffix=st.sampled_from(sorted(SUFFIXES)),
    scale=st.sampled_from((1, 1000)),
)
def test_quantities_are_exact_and_round_up(digits: object, suffix: str, scale: int) -> None:
    exact = Fraction(str(digits)) * SUFFIXES[suffix] * scale
    if exact <= 2**62:
        assert parse_quantity(f"{digits}{suffix}", scale=scale) == math.ceil(exact)
    else:
        with pytest.raises(ValueError, match="too large"):
            parse_quantity(f"{digits}{suffix}", scale=scale)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "1 Gi",
        "1gi",
        "1KB",
        "1.2.3",
        "--1",
        "1e",
        "Gi",
        "0x10",
        "1,5",
        "nan",
        "inf",
        "½",
        True,
        None,
    ],
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "complaint"), [("-1", "negative"), ("100Ei", "too large"), ("1e99", "too large")]
)
def test_amounts_that_no_cluster_has_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_quantity(text)


def test_columns_are_in_the_order_of_base() -> None:
    amounts = Resources(cpu=1, memory=2, ephemeral=3, pods=4, network=5, disk=6)
    assert amounts.base() == (1, 2, 3, 4, 5, 6)
    assert BASE_COLUMNS[COL_PODS] == "pods" and BASE_COLUMNS[COL_DISK] == "proreus.io/disk-mbps"


def test_extended_resources_are_sorted_so_that_equal_amounts_are_equal() -> None:
    resources, other = Resources(extended=(("b", 1), ("a", 2))), Resources(extended=(("a", 2), ("b", 1)))
    assert resources == other and hash(resources) == hash(other)


@pytest.mark.parametrize("bad", [{"cpu": -1}, {"disk": -5}, {"extended": (("x", -1),)}])
def test_negative_amounts_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="negative"):
        Resources(**bad)  # type: ignore[arg-type]
