"""The experience log: what was reported to the service, durable before it is acknowledged.

A report is one part of a durable log, wherever that is kept: in files beside the model's versions, or in a
store of the engine (see `log.protocol`).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator

from proreus.log.protocol import DurableLog, LogReader, Part
from proreus.model.experience import Experience
from proreus.serving.online.record_format import NotARecord, decode, decode_report, encode_report

_log = logging.getLogger(__name__)
_REPORTED = 4096  # reports whose steps are counted


class ExperienceReader:
    """Follows a log while it grows: every `poll` returns what has become whole since the one before."""

    def __init__(self, parts: LogReader, since: int = 0) -> None:
        """parts: read from `since` on, too."""
        self._parts, self._since = parts, since
        self._damaged = self._lost = 0  # whole parts that are no report

    @property
    def damaged(self) -> int:
        """Stretches so far that are no report."""
        return self._damaged + self._parts.damaged

    @property
    def lost(self) -> int:
        """Records that were in them."""
        return self._lost + self._parts.lost

    def poll(self) -> Iterator[tuple[int, Experience]]:
        """(number, record) of the new whole records from `since` on. It may be left at any record."""
        for part in self._parts.poll():
            try:
                records = records_of(part)
            except NotARecord as error:
                self._damaged, self._lost = self._damaged + 1, self._lost + part.records
                _log.warning("record %d is no report (%s); those behind are kept", part.number, error)
                continue
            for number, record in enumerate(records, part.number):
                if number >= self._since:
                    yield number, record

    def close(self) -> None:
        """Let go of what it is read through."""
        self._parts.close()


class ExperienceLog:
    """The writing end; any thread may append."""

    def __init__(self, log: DurableLog) -> None:
        self._log = log
        self._guard = threading.Lock()
        self._reported: deque[tuple[int, int]] = deque(maxlen=_REPORTED)

    @property
    def name(self) -> str:
        """Of the log that is written to."""
        return self._log.name

    @property
    def next_number(self) -> int:
        """The number that the next record will get."""
        return self._log.next_number

    @property
    def trouble(self) -> str:
        """Why nothing can be logged now; "" where the last report was, or can be again."""
        return self._log.trouble

    def steps_since(self, number: int) -> int:
        """Steps of the latest reports that came here and have this number or a later one."""
        with self._guard:
            return sum(steps for first, steps in self._reported if first >= number)

    def append(self, *records: Experience) -> int:
        """Keep a report; returns the number of its first record once all are durable.

        A WorkError says that none of them is.
        """
        number = self._log.append(encode_report(records), len(records))
        with self._guard:
            self._reported.append((number, sum(map(len, records))))
        return number

    def close(self) -> None:
        """Let go of the log; what was acknowledged is durable already."""
        self._log.close()


def records_of(part: Part) -> list[Experience]:
    """The records of a report; NotARecord where it is none."""
    if part.older:
        return [decode(part.payload, (0, part.number))]
    report = decode_report(part.payload, part.number)
    if len(report) != part.records:
        raise NotARecord(f"{len(report)} records where {part.records} belong")
    return report
