"""Figures of the documentation are those of the kept results, in tables and in sentences."""

from __future__ import annotations

import re

import pytest

from tests.docs.claims import CLAIMS, Claim
from tests.docs.kept import ROOT, figure
from tests.docs.tables import TABLES, pages_with_tables, written


def test_every_table_stands_in_a_page() -> None:
    texts = "".join((ROOT / page).read_text() for page in pages_with_tables())
    assert set(re.findall(r"<!-- table: ([\w-]+) -->", texts)) == set(TABLES)


@pytest.mark.parametrize("page", pages_with_tables())
def test_tables_are_those_of_the_kept_results(page: str) -> None:
    text = (ROOT / page).read_text()
    assert written(text) == text, "write them anew: make tables"


@pytest.mark.parametrize(
    ("page", "claim"),
    [(page, claim) for claim in CLAIMS for page in claim.pages],
    ids=lambda case: str(case)[:24],
)
def test_sentences_say_what_was_measured(page: str, claim: Claim) -> None:
    flowing = " ".join((ROOT / page).read_text().split())
    assert claim.words() in flowing, f"{page} should say: {claim.words()}"


@pytest.mark.parametrize("scenario", ["steady", "surge"])
@pytest.mark.parametrize("rule", ["static", "threshold", "random"])
def test_what_the_loop_of_document_004_begins_at_is_ahead(scenario: str, rule: str) -> None:
    """Their intervals do not touch."""
    start, other = (figure("inference-loop", scenario, name, "reward") for name in ("chiron", rule))
    assert start.low is not None and other.high is not None and start.low > other.high
