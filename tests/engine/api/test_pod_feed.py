"""The rows of pods that a page follows: whoever is told what changed knows what stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proreus.engine.api.v1.pod_feed import PodFeed, PodKey, PodRow

KEYS = [("a", "p"), ("a", "q"), ("b", "p"), ("b", "q")]
STEPS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.none() | st.sampled_from(["Pending", "Running"]), st.booleans())
)


def _row(key: PodKey, phase: str) -> PodRow:
    return PodRow(*key, phase, "", "", "", 0.0, 0, 0)


def _follow(feed: PodFeed, known: dict[PodKey, PodRow], seen: int) -> None:
    for told in feed.since(seen):
        if told.all:
            known.clear()
        for key in told.gone:
            known.pop(key, None)
        known.update({row[:2]: row for row in told.rows})


@given(STEPS, st.integers(1, 4))
def test_a_follower_knows_what_stands_however_seldom_it_is_told(
    steps: list[tuple[PodKey, str | None, bool]], kept: int
) -> None:
    feed, stands = PodFeed(gone_kept=kept), dict[PodKey, PodRow]()
    known: dict[PodKey, PodRow] = {}
    seen = -1
    for number, (key, phase, looks) in enumerate(steps, 1):
        row = None if phase is None else _row(key, phase)
        feed.put(key, row, number)
        if row is None:
            stands.pop(key, None)
        else:
            stands[key] = row
        if looks:
            _follow(feed, known, seen)
            seen = number
            assert known == stands
    _follow(feed, known, seen)
    assert known == stands


def test_many_rows_come_in_portions_and_what_stays_is_not_told_again() -> None:
    feed = PodFeed()
    for number in range(5_000):
        feed.put(("n", str(number)), _row(("n", str(number)), "Running"), number)
    told = list(feed.since(-1))
    assert [part.all for part in told] == [True, False, False]
    assert [len(part.rows) for part in told] == [2_000, 2_000, 1_000]
    feed.put(("n", "7"), _row(("n", "7"), "Running"), 5_000)
    assert list(feed.since(4_999)) == [], "it is as it was"
    feed.put(("n", "7"), _row(("n", "7"), "Failed"), 5_001)
    assert [part.rows for part in feed.since(4_999)] == [[_row(("n", "7"), "Failed")]]
