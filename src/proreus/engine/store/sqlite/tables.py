"""The tables of a store in a SQLite file, and every statement on them; no task and no thread.

`changes` is the history: one row a change, the value written once. Its place is the revision and the position
in the transaction in one number, so that rows lie in the order in which they came to be and a revision is
found without an index. `keys` says which row stands under a key now. A row remembers the row that it
superseded: that is the change's previous entry, the way back to an older revision, and what compaction
takes away.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from proreus.engine.store.protocol import (
    Change,
    Delete,
    KeyValue,
    NoSuchLease,
    Operation,
    Put,
    StoreError,
    StoreFull,
    Unavailable,
)


class Damaged(StoreError):
    """The file is no store, or not whole."""


@contextmanager
def in_protocol_words(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as the protocol's, with the file's name."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(path, error) from error


def _translated(path: Path, error: sqlite3.Error) -> StoreError:
    # The low byte is the kind of error; the rest says more exactly where.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"{path}: no room to write: {error}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Damaged(f"{path}: not a store, or damaged: {error}")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_IOERR:
            return Unavailable(f"{path}: {error}")
    return StoreError(f"{path}: {error}")


PLACES = 1 << 20
"""More changes than one transaction has; `place = revision * PLACES + position`."""
WRITER_KIB, READER_KIB = 16_384, 2_048
"""Of pages that a connection keeps; the system keeps the file's pages, too, and there are many readers."""
_APPLICATION = 0x50524F52
_FORMAT = 1
_END_OF_TEXT = b""
"""SQLite orders every blob behind every text: an upper bound for all keys."""

_SCHEMA = """
CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO numbers VALUES ('revision', 1), ('compacted', 0), ('swept', 0);
CREATE TABLE changes (
    place INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB, created INTEGER NOT NULL,
    lease INTEGER NOT NULL, previous INTEGER
);
CREATE TABLE keys (key TEXT PRIMARY KEY, place INTEGER NOT NULL, lease INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX keys_by_lease ON keys (lease) WHERE lease != 0;
CREATE TABLE leases (lease INTEGER PRIMARY KEY AUTOINCREMENT, seconds REAL NOT NULL, ends REAL NOT NULL);
CREATE INDEX leases_by_end ON leases (ends);
"""

_ENTRY = """
SELECT k.key, c.value, c.created, c.place, c.lease FROM keys k JOIN changes c ON c.place = k.place
WHERE k.key = ?
"""
_STANDING = """
SELECT k.key, c.value, c.created, c.place, c.lease FROM keys k JOIN changes c ON c.place = k.place
WHERE k.key >= :begin AND k.key < :end AND k.key > :after ORDER BY k.key LIMIT :limit
"""
_COUNT = "SELECT count(*) FROM keys WHERE key >= :begin AND key < :end AND key > :after"
# What stood at a revision: the present, with the first later change of each key undone.
_STOOD = """
WITH later AS (
    SELECT key, previous, min(place) FROM changes
    WHERE place >= :place AND key >= :begin AND key < :end GROUP BY key
), stood AS (
    SELECT key, place FROM keys WHERE key >= :begin AND key < :end AND key NOT IN (SELECT key FROM later)
    UNION ALL SELECT key, previous FROM later WHERE previous IS NOT NULL
)
"""
_STANDING_THEN = (
    _STOOD
    + """
SELECT s.key, c.value, c.created, c.place, c.lease FROM stood s JOIN changes c ON c.place = s.place
WHERE s.key > :after ORDER BY s.key LIMIT :limit
"""
)
_COUNT_THEN = _STOOD + "SELECT count(*) FROM stood WHERE key > :after"
_CHANGES = """
SELECT c.key, c.value, c.created, c.place, c.lease, p.value, p.created, p.place, p.lease
FROM changes c LEFT JOIN changes p ON p.place = c.previous
WHERE c.place >= :place AND c.place < :end_place AND c.key >= :begin AND c.key < :end ORDER BY c.place
"""
_SUPERSEDED = """
SELECT c.place, length(p.value) FROM changes c JOIN changes p ON p.place = c.previous
WHERE c.place >= ? ORDER BY c.place
"""


class Row(NamedTuple):
    """What stands under a key, as SQLite has it."""

    key: str
    value: bytes
    created: int
    place: int
    lease: int

    @property
    def revision(self) -> int:
        """That changed it last."""
        return self.place // PLACES

    @property
    def entry(self) -> KeyValue:
        """In the protocol's words."""
        return _entry(*self)


_NOTHING_KNOWN: Mapping[str, Row | None] = MappingProxyType({})


class Tables:
    """One connection to the file."""

    def __init__(
        self, path: Path, *, busy_seconds: float, read_only: bool = False, cache_kib: int = WRITER_KIB
    ) -> None:
        self.path = path
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
            uri=True,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )
        for setting in ("synchronous = FULL", "fullfsync = ON", f"cache_size = -{cache_kib}"):
            self.execute(f"PRAGMA {setting}")

    def execute(self, statement: str, values: Sequence[object] | dict[str, object] = ()) -> sqlite3.Cursor:
        """One statement, as it is."""
        return self._connection.execute(statement, values)

    def patience(self, seconds: float) -> None:
        """So long to wait for another process that is writing."""
        self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def prepare(self) -> None:
        """Make the tables where the file is new; raise `Damaged` where it holds something else."""
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA journal_size_limit = 67108864")
        self.execute("BEGIN IMMEDIATE")  # two processes may open a new file at once
        if self.is_new():
            for statement in _SCHEMA.split(";\n"):
                self.execute(statement)
            self.execute(f"PRAGMA application_id = {_APPLICATION}")
            self.execute(f"PRAGMA user_version = {_FORMAT}")
        else:
            self.check_format()
        self.execute("COMMIT")

    def is_new(self) -> bool:
        """Whether nothing was ever written to the file."""
        (application,) = self.execute("PRAGMA application_id").fetchone()
        (tables,) = self.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return bool(application == 0 and tables == 0)

    def check_format(self) -> None:
        """Raise `Damaged` where the file holds something else than a store as it is kept here."""
        (application,) = self.execute("PRAGMA application_id").fetchone()
        (version,) = self.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise Damaged(f"{self.path}: a SQLite file of something else, not a store")
        if version != _FORMAT:
            raise Damaged(f"{self.path}: a store of format {version}; this version reads format {_FORMAT}")

    def check(self) -> None:
        """Raise `Damaged` where the file's pages do not fit together."""
        (verdict,) = self.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise Damaged(f"{self.path}: the store's file is damaged: {' '.join(verdict.split())}")

    def give_back_log(self) -> None:
        """Bring the log into the file as far as there is room, so that its own room can be used again."""
        try:
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError:
            return  # no room even for that; the next write says so

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @property
    def in_transaction(self) -> bool:
        """Whether one is open."""
        return self._connection.in_transaction

    def others(self) -> int:
        """A number that changes when another connection has written."""
        (version,) = self.execute("PRAGMA data_version").fetchone()
        return int(version)

    def number(self, name: str) -> int:
        """One of `numbers`."""
        ((value,),) = self.execute("SELECT value FROM numbers WHERE name = ?", (name,)).fetchall()
        return int(value)

    def set_number(self, name: str, value: int) -> None:
        """Keep one of `numbers`."""
        self.execute("UPDATE numbers SET value = ? WHERE name = ?", (value, name))

    def entry(self, key: str) -> KeyValue | None:
        """What stands under the key."""
        row = self.row(key)
        return None if row is None else row.entry

    def row(self, key: str) -> Row | None:
        """The row of what stands under the key."""
        # All of them: a cursor that is not at its end keeps its snapshot.
        rows = self._connection.execute(_ENTRY, (key,)).fetchall()
        return Row(*rows[0]) if rows else None

    def standing(self, prefix: str, after: str, limit: int, revision: int = 0) -> Iterator[KeyValue]:
        """What stands under the prefix, or stood at the revision, in the order of keys."""
        rows = self.execute(
            _STANDING_THEN if revision else _STANDING,
            {**_range(prefix), "after": after, "limit": limit or -1, "place": (revision + 1) * PLACES},
        )
        return (_entry(*row) for row in rows)

    def count(self, prefix: str, after: str, revision: int = 0) -> int:
        """How many keys `standing` has."""
        (count,) = self.execute(
            _COUNT_THEN if revision else _COUNT,
            {**_range(prefix), "after": after, "place": (revision + 1) * PLACES},
        ).fetchone()
        return int(count)

    def changes(self, prefix: str, after: int, upto: int) -> Generator[Change, None, None]:
        """The history under the prefix after one revision, up to and with another."""
        rows = self.execute(
            _CHANGES, {**_range(prefix), "place": (after + 1) * PLACES, "end_place": (upto + 1) * PLACES}
        )
        for key, value, created, place, lease, *before in rows:
            entry = None if value is None else _entry(key, value, created, place, lease)
            previous = None if before[2] is None else _entry(key, *before)
            yield Change(key, place // PLACES, entry, previous)

    def size(self, after: int, upto: int) -> int:
        """Bytes of the values that came after one revision, up to and with another."""
        span = ((after + 1) * PLACES, (upto + 1) * PLACES)
        ((size,),) = self.execute(
            "SELECT total(length(value)) FROM changes WHERE place >= ? AND place < ?", span
        ).fetchall()
        return int(size)

    def superseded(self, after: int) -> Iterator[tuple[int, int]]:
        """What each later change took the place of: its revision, and how long that was."""
        for place, size in self.execute(_SUPERSEDED, ((after + 1) * PLACES,)):
            yield place // PLACES, size or 0

    def apply(
        self, operations: Sequence[Operation], revision: int, known: Mapping[str, Row | None] = _NOTHING_KNOWN
    ) -> list[Change]:
        """Do the operations as that revision; what they changed. known: rows that were read just before."""
        if len(operations) >= PLACES:
            raise StoreError(f"{len(operations)} operations in one transaction; at most {PLACES - 1}")
        for operation in operations:
            if isinstance(operation, Put) and operation.lease:
                self.lease_seconds(operation.lease)
        changes: list[Change] = []
        execute = self._connection.execute
        for operation in operations:
            key = operation.key
            before = known[key] if key in known else self.row(key)
            previous = None if before is None else before.entry
            place = revision * PLACES + len(changes)
            match operation:
                case Put(value=value, lease=lease):
                    created = before.created if before else revision
                    execute(
                        "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)",
                        (place, key, value, created, lease, before.place if before else None),
                    )
                    execute("INSERT OR REPLACE INTO keys VALUES (?, ?, ?)", (key, place, lease))
                    changes.append(
                        Change(key, revision, KeyValue(key, value, created, revision, lease), previous)
                    )
                case Delete():
                    if before:
                        execute(
                            "INSERT INTO changes VALUES (?, ?, NULL, 0, 0, ?)", (place, key, before.place)
                        )
                        execute("DELETE FROM keys WHERE key = ?", (key,))
                        changes.append(Change(key, revision, None, previous))
        return changes

    def grant(self, seconds: float, now: float) -> int:
        """A new lease."""
        lease = self.execute(
            "INSERT INTO leases (seconds, ends) VALUES (?, ?)", (seconds, now + seconds)
        ).lastrowid
        assert lease is not None
        return lease

    def lease_seconds(self, lease: int) -> float:
        """How long it lives after each `keep_alive`; raises `NoSuchLease`."""
        rows = self.execute("SELECT seconds FROM leases WHERE lease = ?", (lease,)).fetchall()
        if not rows:
            raise NoSuchLease(f"there is no lease {lease}")
        return float(rows[0][0])

    def prolong(self, lease: int, now: float) -> None:
        """It lives its time from now."""
        self.execute("UPDATE leases SET ends = ? WHERE lease = ?", (now + self.lease_seconds(lease), lease))

    def end(self, lease: int, revision: int) -> list[Change]:
        """The lease goes, and its keys as that revision."""
        self.lease_seconds(lease)
        keys = self.execute(
            "SELECT key FROM keys WHERE lease = ? AND lease != 0 ORDER BY key", (lease,)
        ).fetchall()
        self.execute("DELETE FROM leases WHERE lease = ?", (lease,))
        return self.apply([Delete(key) for (key,) in keys], revision)

    def ended(self, now: float) -> list[int]:
        """The leases whose time is over."""
        rows = self.execute(
            "SELECT lease FROM leases WHERE ends <= ? ORDER BY ends, lease", (now,)
        ).fetchall()
        return [lease for (lease,) in rows]

    def next_end(self) -> float | None:
        """When the next lease runs out."""
        ((ends,),) = self.execute("SELECT min(ends) FROM leases").fetchall()
        return None if ends is None else float(ends)

    def rebase_leases(self, now: float) -> None:
        """The clock counts from the machine's start: after one, no lease has more than its time left."""
        self.execute("UPDATE leases SET ends = ? + seconds WHERE ends > ? + seconds", (now, now))

    def sweep(self, most: int) -> bool:
        """Take away rows that compaction has let go, those of so many revisions; whether more is left."""
        begin, compacted = self.number("swept"), self.number("compacted")
        end = min(compacted, begin + most)
        if end > begin:
            span = ((begin + 1) * PLACES, (end + 1) * PLACES)
            self.execute(
                "DELETE FROM changes WHERE place IN"
                " (SELECT previous FROM changes WHERE place >= ? AND place < ?)",
                span,
            )
            self.execute("DELETE FROM changes WHERE place >= ? AND place < ? AND value IS NULL", span)
            self.set_number("swept", end)
        return end < compacted


def _entry(key: str, value: bytes, created: int, place: int, lease: int) -> KeyValue:
    return KeyValue(key, value, created, place // PLACES, lease)


def _range(prefix: str) -> dict[str, object]:
    """The keys with that prefix: from here on, and before there."""
    return {"begin": prefix, "end": _behind(prefix)}


def _behind(prefix: str) -> str | bytes:
    """The least text that is behind all texts with that prefix."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1])
        if last < 0x10FFFF:
            return prefix[: length - 1] + chr(0xE000 if last == 0xD7FF else last + 1)  # no surrogates
    return _END_OF_TEXT
