"""Appends of many threads: those that come together are written together, by one of the threads."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from proreus.log.protocol import LogFull, PartTooLarge
from proreus.model.errors import ProreusError, WorkError

_log = logging.getLogger(__name__)


@dataclass
class Append:
    """One that waits."""

    payload: bytes
    records: int
    number: int = -1
    """Of its first record, once it is durable."""
    done: bool = False
    failure: Exception | None = field(default=None)


class GroupedLog(ABC):
    """The half of a `DurableLog` that does not depend on where it is kept."""

    def __init__(self, name: str, where: str) -> None:
        """where: what messages begin with."""
        self._name, self._where = name, where
        self._guard = threading.Condition()
        self._waiting: list[Append] = []
        self._busy = self._closed = False
        self._failure: Exception | None = None
        self._next = 0

    @property
    def name(self) -> str:
        """Of this log, among those of its place."""
        return self._name

    @property
    def next_number(self) -> int:
        """The number that the next record will get."""
        with self._guard:
            return self._next

    @property
    def trouble(self) -> str:
        """Why nothing can be appended now; "" where it could last time, or can again."""
        failure = self._failure
        return "" if failure is None or self._is_over(failure) else reason(failure)

    def append(self, payload: bytes, records: int = 1) -> int:
        """Keep a part; the number of its first record once it is durable. A WorkError: it is not kept."""
        mine = Append(payload, records)
        with self._guard:
            if self._closed:
                raise WorkError(f"{self._where}: the log is closed")
            self._waiting.append(mine)
            while not mine.done:
                if self._busy:
                    self._guard.wait()
                    continue
                self._busy = True
                group, self._waiting = self._waiting, []
                self._guard.release()
                try:
                    self._settle(group)
                finally:
                    self._guard.acquire()
                    self._busy = False
                    self._guard.notify_all()
        match mine.failure:
            case None:
                return mine.number
            case LogFull() | PartTooLarge() as refused:
                raise type(refused)(str(refused)) from refused
            case failure:
                raise WorkError(reason(failure)) from failure

    def _settle(self, group: list[Append]) -> None:
        """Write a group, and say of each what became of it. Only the thread that set `_busy` is here."""
        failure: Exception | None = None
        try:
            self._write(group)
        except (OSError, ValueError, ProreusError) as error:
            failure = error
        except BaseException as error:  # nobody is left waiting for whoever broke
            for append in group:
                append.failure, append.done = WorkError(f"the log broke: {error!r}"), True
            raise
        kept = [append for append in group if append.number >= 0]
        for append in group:
            if append.number < 0 and append.failure is None:
                append.failure = failure
            append.done = True
        if failure is None and not kept:
            return  # all were refused for their own sake: that says nothing of the log
        before, self._failure = self._failure, failure
        if failure is not None and (before is None or reason(before) != reason(failure)):
            _log.error("%s: nothing can be logged: %s", self._where, reason(failure))
        elif failure is None and before is not None:
            _log.warning("%s: it is logged again", self._where)

    def close(self) -> None:
        """Finish what is under way and let go; what was acknowledged is durable already."""
        with self._guard:
            self._closed = True
            while self._busy or self._waiting:
                self._guard.wait()
        self._let_go()

    @abstractmethod
    def _write(self, group: list[Append]) -> None:
        """Make them durable and give them their numbers; whoever has none when it raises is not kept."""

    @abstractmethod
    def _is_over(self, failure: Exception) -> bool:
        """Whether it is known that the same would not fail now."""

    @abstractmethod
    def _let_go(self) -> None:
        """Of files and connections."""


def reason(error: Exception) -> str:
    """In one line, without the file's name where the system's own words say it."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
