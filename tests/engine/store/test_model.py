"""Every store against a plain model, by random stories."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from proreus.engine.store.protocol import (
    ABSENT,
    Change,
    Compacted,
    Delete,
    KeyValue,
    NoSuchLease,
    Operation,
    Put,
    Store,
    Unchanged,
)
from tests.engine.store.etcd_servers import Cluster, etcd_cluster
from tests.engine.store.stores import Opener, Places, changes

KEYS = st.sampled_from(["a", "a/1", "a/2", "a/é", "b", "b/1"])
PREFIXES = st.sampled_from(["", "a", "a/", "b/", "c"])
VALUES = st.binary(max_size=3)
NO_LEASE = 999_999_999


@dataclass
class Model:
    """The whole history, and what stood at every revision."""

    revision: int
    compacted: int = 0
    standing: dict[str, KeyValue] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    states: dict[int, dict[str, KeyValue]] = field(default_factory=dict)

    def apply(self, operations: list[Operation]) -> None:
        """Do the operations as the next revision."""
        revision, done = self.revision + 1, []
        for operation in operations:
            before = self.standing.get(operation.key)
            entry = None
            if isinstance(operation, Put):
                created = before.created if before else revision
                entry = KeyValue(operation.key, operation.value, created, revision, operation.lease)
                self.standing[operation.key] = entry
            elif before is None:
                continue
            else:
                del self.standing[operation.key]
            done.append(Change(operation.key, revision, entry, before))
        if done:
            self.history += done
            self.revision = revision
            self.states[revision] = dict(self.standing)


class Story(RuleBasedStateMachine):
    """One store and the model beside it."""

    opening: Opener
    outlives = True

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = self.runner.run(self._open())
        self.model = Model(self.runner.run(self.store.list("")).revision)
        self.first = self.model.revision
        self.model.states[self.first] = {}
        self.leases: list[int] = []

    async def _open(self) -> Store:
        return await self.opening()

    @rule(
        written=st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=3, unique_by=lambda one: one[0]),
        compared=st.lists(st.tuples(KEYS, st.sampled_from(["right", "absent", "wrong"])), max_size=2),
        lease=st.integers(0, 4),
    )
    def commit(
        self, written: list[tuple[str, bytes | None]], compared: list[tuple[str, str]], lease: int
    ) -> None:
        by = self.leases[lease % len(self.leases)] if self.leases and lease < 3 else 0
        by = NO_LEASE if lease == 4 and len(written) > 1 else by
        operations = [Delete(key) if value is None else Put(key, value, by) for key, value in written]
        standing = {key: self.model.standing.get(key) for key, _ in compared}
        revisions = {key: entry.revision if entry else ABSENT for key, entry in standing.items()}
        wanted = {"absent": ABSENT, "wrong": self.model.revision + 1}
        conditions = [Unchanged(key, wanted.get(how, revisions[key])) for key, how in compared]
        holds = all(condition.revision == revisions[condition.key] for condition in conditions)
        if holds and any(
            isinstance(operation, Put) and operation.lease == NO_LEASE for operation in operations
        ):
            with pytest.raises(NoSuchLease):
                self.runner.run(self.store.commit(conditions, operations))
            return
        done = self.runner.run(self.store.commit(conditions, operations))
        assert done.done == holds
        if holds:
            self.model.apply(list(operations))
        else:
            assert done.found == tuple(standing[condition.key] for condition in conditions)
        assert done.revision == self.model.revision

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.runner.run(self.store.get(key)) == self.model.standing.get(key)

    @rule(prefix=PREFIXES, after=st.just("") | KEYS, limit=st.integers(0, 3), back=st.integers(-1, 6))
    def list(self, prefix: str, after: str, limit: int, back: int) -> None:
        revision = 0 if back < 0 else max(self.first, self.model.revision - back)
        listing = self.store.list(prefix, after=after, limit=limit, revision=revision)
        if revision and revision < self.model.compacted:
            with pytest.raises(Compacted):
                self.runner.run(listing)
            return
        state = self.model.states[revision or self.model.revision]
        keys = sorted(key for key in state if key.startswith(prefix) and key > after)
        taken = keys[:limit] if limit else keys
        found = self.runner.run(listing)
        assert found.entries == tuple(state[key] for key in taken)
        assert found.remaining == len(keys) - len(taken)
        assert found.revision == (revision or self.model.revision)

    @rule(prefix=PREFIXES, back=st.integers(0, 8))
    def watch(self, prefix: str, back: int) -> None:
        after = max(self.first, self.model.revision - back)
        wanted = [
            change
            for change in self.model.history
            if change.revision > after and change.key.startswith(prefix)
        ]
        if after < self.model.compacted:
            with pytest.raises(Compacted):
                self.runner.run(changes(self.store, prefix, after, 1))
        else:
            found = self.runner.run(changes(self.store, prefix, after, len(wanted)))
            assert sorted(found, key=_place) == sorted(wanted, key=_place)
            assert [change.revision for change in found] == [change.revision for change in wanted]

    @rule(back=st.integers(0, 4))
    def compact(self, back: int) -> None:
        revision = max(self.first, self.model.revision - back)
        self.runner.run(self.store.compact(revision))
        self.model.compacted = max(self.model.compacted, revision)

    @precondition(lambda self: len(self.leases) < 3)
    @rule()
    def grant(self) -> None:
        self.leases.append(self.runner.run(self.store.grant(1000)))

    @precondition(lambda self: self.leases)
    @rule(which=st.integers(0, 2))
    def revoke(self, which: int) -> None:
        lease = self.leases.pop(which % len(self.leases))
        self.runner.run(self.store.keep_alive(lease))
        self.runner.run(self.store.revoke(lease))
        self.model.apply(
            [Delete(key) for key, entry in sorted(self.model.standing.items()) if entry.lease == lease]
        )

    @precondition(lambda self: self.outlives)
    @rule()
    def open_again(self) -> None:
        self.runner.run(self.store.close())
        self.store = self.runner.run(self._open())

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()


def _place(change: Change) -> tuple[int, str]:
    return change.revision, change.key


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Cluster]:
    """A member of its own: in one that tests share, leases of others run out and count a revision."""
    with etcd_cluster(tmp_path) as cluster:
        yield cluster


def test_every_store_does_what_the_model_does(places: Places) -> None:
    class OfOneKind(Story):
        def __init__(self) -> None:
            self.opening = places()  # each story has a store of its own
            super().__init__()

        outlives = places.outlive

    examples = int(os.environ.get("PROREUS_STORE_STORIES", "30"))
    run_state_machine_as_test(OfOneKind, settings=settings(max_examples=examples, stateful_step_count=25))
