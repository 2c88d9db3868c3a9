"""What no store takes, refused alike before anything is done."""

from __future__ import annotations

from collections.abc import Sequence

from proreus.engine.store.protocol import NoSuchLease, Operation, Put, Unchanged

MOST_BYTES = 64 << 20
"""No store takes a larger value; etcd's own limit is about 1.5 MiB a transaction."""
_MOST_LEASE = 1 << 63


def check_transaction(conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> None:
    """Raise ValueError for a transaction that cannot be meant: an empty key, or one that is written twice."""
    written: set[str] = set()
    for operation in operations:
        if operation.key in written:
            raise ValueError(f"the key {operation.key!r} stands twice in one transaction")
        written.add(operation.key)
        if isinstance(operation, Put):
            _check_put(operation)
    for key in (*written, *(condition.key for condition in conditions)):
        if not key:
            raise ValueError("a key is empty")
        key.encode()  # a lone surrogate has no UTF-8


def _check_put(put: Put) -> None:
    if not isinstance(put.value, bytes):
        raise ValueError(f"the value of {put.key!r} is no bytes")
    if len(put.value) > MOST_BYTES:
        raise ValueError(f"the value of {put.key!r} has {len(put.value)} bytes; at most {MOST_BYTES}")
    if put.lease:
        check_lease(put.lease)


def check_lease(lease: int) -> None:
    """Raise `NoSuchLease` for a number that no store grants."""
    if not 0 < lease < _MOST_LEASE:
        raise NoSuchLease(f"there is no lease {lease}")


def check_seconds(seconds: float) -> None:
    """Raise ValueError for a lease that has ended before it begins."""
    if not 0 < seconds < float("inf"):
        raise ValueError(f"a lease lives for a time above 0, not {seconds} s")
