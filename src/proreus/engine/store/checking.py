"""What no store takes, refused alike before anything is done."""

from __future__ import annotations

from collections.abc import Sequence

from proreus.engine.store.protocol import Operation, StoreError, Unchanged


def check_transaction(conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> None:
    """Raise ValueError for a transaction that cannot be meant: an empty key, or one that is written twice."""
    written: set[str] = set()
    for operation in operations:
        if operation.key in written:
            raise ValueError(f"the key {operation.key!r} stands twice in one transaction")
        written.add(operation.key)
    for key in (*written, *(condition.key for condition in conditions)):
        if not key:
            raise ValueError("a key is empty")
        key.encode()  # a lone surrogate has no UTF-8


def check_seconds(seconds: float) -> None:
    """Raise ValueError for a lease that has ended before it begins."""
    if not 0 < seconds < float("inf"):
        raise ValueError(f"a lease lives for a time above 0, not {seconds} s")


def not_reached(asked: int, revision: int) -> StoreError:
    """For a list at a revision that is still to come."""
    return StoreError(f"revision {asked} is not reached; the store is at {revision}")
