"""Who is closed when: the look over all connections, with a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.httpserver.connection_limits import Crowd, Step
from proreus.serving.server.http import HttpLimits

LIMITS = HttpLimits(connections=32, idle_seconds=5, body_seconds=10, write_seconds=20)


@dataclass(eq=False)
class Fake:
    """A connection as it is looked at."""

    address: str = "192.0.2.1"
    step: Step = Step.IDLE
    since: float = 0.0
    waits_for_us: bool = False
    held_back: bool = False
    unread: int = 0
    leaving: bool = False
    unread_since: float | None = None
    ended: str = ""

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def ends_after(connection: Fake) -> float:
    """Seconds until it is ended, looked at every half a second; 100: never."""
    crowd = Crowd(LIMITS)
    crowd.welcome(connection)
    for half_seconds in range(200):
        list(crowd.look(half_seconds / 2))
        if connection.ended:
            return half_seconds / 2
    return 100.0


def test_every_step_has_its_time() -> None:
    assert 5 < ends_after(Fake()) < 6.5
    assert 10 < ends_after(Fake(step=Step.HEAD)) < 11.5
    assert 20 < ends_after(Fake(step=Step.BODY, waits_for_us=True)) < 22.5
    assert 20 < ends_after(Fake(unread=1)) < 21.5
    assert 5 < ends_after(Fake(leaving=True)) < 6.5
    assert 5 < ends_after(Fake(step=Step.BODY)) < 6.5, "answered, and the rest of its body never comes"


def test_nobody_is_ended_for_what_we_take_long_over() -> None:
    assert ends_after(Fake(waits_for_us=True)) == 100.0
    assert ends_after(Fake(step=Step.HEAD, held_back=True)) == 100.0


def test_of_answers_that_nobody_takes_the_largest_go_first() -> None:
    crowd = Crowd(LIMITS)
    crowd_of = [Fake(unread=size << 20) for size in (10, 100, 60, 40)]
    for connection in crowd_of:
        crowd.welcome(connection)
    list(crowd.look(1.0))
    assert [connection.ended for connection in crowd_of] == ["", "aborted", "", ""]


def test_the_longest_idle_of_the_client_with_most_give_way() -> None:
    crowd = Crowd(LIMITS)
    quiet = Fake(address="192.0.2.9", since=-100.0)
    crowd.welcome(quiet)
    busy = [Fake(waits_for_us=True) for _ in range(10)]
    idle = [Fake(step=Step.BODY, waits_for_us=True, since=-float(k)) for k in range(21)]
    for connection in (*busy, *idle):
        crowd.welcome(connection)
    assert not any(connection.ended for connection in (quiet, *busy, *idle))
    new = Fake(since=1.0)
    crowd.welcome(new)
    assert [connection for connection in (*busy, *idle) if connection.ended] == idle[-2:]
    assert not new.ended and not quiet.ended


def test_where_all_are_busy_the_newcomer_goes() -> None:
    crowd = Crowd(LIMITS)
    for _ in range(32):
        crowd.welcome(Fake(waits_for_us=True))
    new = Fake()
    crowd.welcome(new)
    assert new.ended == "aborted"
    crowd.farewell(new)
    crowd.farewell(new)
