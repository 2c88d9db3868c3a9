"""Readers of virtual machine traces: both tables, conversion, starts, splits; the generator's calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from proreus.data.vm_lifetimes import LIFETIME_COLUMNS
from proreus.model.errors import InputError, UsageError
from proreus.worlds.vms.datasets.generator import FLAVOURS, generate_vms
from proreus.worlds.vms.datasets.huawei import (
    EVENT_COLUMNS,
    SPLITS,
    read_events,
    read_starts,
    read_trace,
    split_range,
)
from proreus.worlds.vms.model import DoubleRule, ServerShape, VmTrace, events_of, part_of, superposed
from proreus.worlds.vms.state.servers import flavours_of
from tests.real_data import real_data
from tests.worlds.vms.strategies import Case, cases
from tests.worlds.vms.tables import event_rows, lifetime_rows


def write(path: Path, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> Path:
    lines = [",".join(columns), *(",".join(str(cell) for cell in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def assert_same(vm_trace: VmTrace, other: VmTrace) -> None:
    for name in ("cpu", "mem", "arrival", "events"):
        assert np.array_equal(getattr(vm_trace, name), getattr(other, name)), name
    np.testing.assert_allclose(vm_trace.lifetime, other.lifetime)


@settings(max_examples=30)
@given(cases())
def test_events_and_lifetimes_say_the_same(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    folder = tmp_path_factory.mktemp("tables")
    events = read_trace(write(folder / "events.csv", EVENT_COLUMNS, event_rows(case.trace)))
    assert_same(events, case.trace)
    if np.isfinite(case.trace.lifetime).all():
        lifetimes = read_trace(write(folder / "lt.csv", LIFETIME_COLUMNS, lifetime_rows(case.trace)))
        assert_same(lifetimes, case.trace)
        assert_same(read_trace(write(folder / "again.csv", EVENT_COLUMNS, event_rows(lifetimes))), events)


def test_machines_that_never_end_are_left_out_of_a_lifetime_table() -> None:
    arrival, lifetime = np.array([0.0, 1.0]), np.array([np.inf, 5.0])
    trace = VmTrace("t", np.ones(2), np.ones(2), arrival, lifetime, events_of(arrival, lifetime))
    assert trace.events.tolist() == [0, 1, -2]
    assert lifetime_rows(trace) == [(0, 1.0, 1.0, 1.0, 5.0)]


def test_deletions_come_before_creations_of_the_same_moment() -> None:
    arrival, lifetime = np.array([0.0, 5.0, 5.0]), np.array([5.0, 0.0, 1.0])
    assert events_of(arrival, lifetime).tolist() == [0, -1, 1, 2, -2, -3]


def test_a_deletion_of_an_older_machine_concerns_nobody(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [("old", 1, 1, 0, 1), ("a", 2, 4, 1.5, 0), ("a", 2, 4, 3, 1)]
    trace = read_events(write(tmp_path / "e.csv", EVENT_COLUMNS, rows))
    assert trace.events.tolist() == [0, -1] and trace.lifetime.tolist() == [1.5]


@pytest.mark.parametrize(
    ("columns", "rows", "says"),
    [
        (LIFETIME_COLUMNS, [("a", 1, 1, 5, 1), ("b", 1, 1, 4, 1)], "3: at: earlier than the row before"),
        (LIFETIME_COLUMNS, [("a", 1, 1, 0, 1), ("a", 1, 1, 1, 1)], "3: vmid: the machine 'a' appears twice"),
        (LIFETIME_COLUMNS, [("a", 0, 1, 0, 1)], "2: cpu:"),
        (LIFETIME_COLUMNS, [("a", 1, -1, 0, 1)], "2: mem:"),
        (LIFETIME_COLUMNS, [("a", 1, 1, 0, -1)], "2: lt: '-1' is negative"),
        (LIFETIME_COLUMNS, [("a", "nan", 1, 0, 1)], "2: cpu: 'nan' is not a finite number"),
        (LIFETIME_COLUMNS, [("a", 2e6, 1, 0, 1)], "2: cpu:"),
        (LIFETIME_COLUMNS, [], "no row"),
        (EVENT_COLUMNS, [("a", 1, 1, 0, 2)], "2: type:"),
        (EVENT_COLUMNS, [("a", 1, 1, 5, 0), ("b", 1, 1, 4, 0)], "3: time: earlier"),
        (EVENT_COLUMNS, [("a", 1, 1, 0, 0), ("a", 1, 1, 1, 0)], "3: vmid: the machine 'a' is created twice"),
        (EVENT_COLUMNS, [("a", 1, 1, 0, 0), ("a", 1, 1, 1, 1), ("a", 1, 1, 2, 1)], "deleted twice"),
        (EVENT_COLUMNS, [("a", 1, 1, 0, 1)], "no machine is created"),
        (("vmid", "cpu", "type"), [("a", 1, 0)], "memory: the column is missing"),
    ],
)
def test_wrong_tables_are_refused_by_line_and_field(
    tmp_path: Path, columns: tuple[str, ...], rows: list[tuple[object, ...]], says: str
) -> None:
    path = write(tmp_path / "t.csv", columns, rows)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert says in str(caught.value) and "t.csv" in str(caught.value)


def test_starts_are_plain_arrays_and_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.array([3, 0, 9]))
    assert read_starts(tmp_path / "good.npy", 10).tolist() == [3, 0, 9]
    np.save(tmp_path / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "float.npy", np.array([1.5]))
    np.save(tmp_path / "far.npy", np.array([10]))
    (tmp_path / "text.npy").write_text("not an array")
    for name in ("object", "float", "far", "text", "missing"):
        with pytest.raises(InputError, match=rf"{name}\.npy"):
            read_starts(tmp_path / f"{name}.npy", 10)


@pytest.mark.parametrize("machines", [7, 1_000, 110_000, 116_313])
def test_the_parts_of_a_trace_never_overlap(machines: int) -> None:
    train, valid, test = (split_range(part, machines) for part in SPLITS)
    assert 0 <= train[0] < train[1] <= valid[0] < valid[1] <= test[0] < test[1] <= max(machines, 3)
    with pytest.raises(UsageError, match="no part"):
        split_range("all", machines)  # type: ignore[arg-type]


def test_double_rules_and_server_shapes_are_read() -> None:
    cpu, mem = np.array([10.0, 12.0]), np.array([10.0, 11.0])
    assert DoubleRule.parse("mem>10").splits(cpu, mem).tolist() == [False, True]
    assert DoubleRule.parse("cpu>10").splits(cpu, mem).tolist() == [False, True]
    assert DoubleRule.parse("cpu >= 10").splits(cpu, mem).tolist() == [True, True]
    assert str(DoubleRule.parse("cpu>=2.5")) == "cpu>=2.5"
    assert ServerShape.parse("3x40/90+2x64/256") == (ServerShape(3), ServerShape(2, 64.0, 256.0))
    for wrong in ("disk>1", "mem<3", "mem>", "mem>1e3"):
        with pytest.raises(UsageError, match="double rule"):
            DoubleRule.parse(wrong)
    for wrong in ("", "5", "5x40", "5x40/90+", "0x40/90", "1x0/90"):
        with pytest.raises(UsageError):
            ServerShape.parse(wrong)


def test_the_generator_is_calibrated_on_the_published_figures() -> None:
    trace = generate_vms(60_000, 5)
    total = sum(flavour.machines for flavour in FLAVOURS)
    for flavour in FLAVOURS[:8]:
        chosen = (trace.cpu == flavour.cpu) & (trace.mem == flavour.mem)
        assert chosen.mean() == pytest.approx(flavour.machines / total, rel=0.15)
        assert np.median(trace.lifetime[chosen]) == pytest.approx(flavour.lifetime[3], rel=0.4)
    overall = np.quantile(trace.lifetime, [0.1, 0.25, 0.5, 0.75, 0.9])
    np.testing.assert_allclose(overall, [57, 194, 2_592, 6_651, 20_500], rtol=0.5)
    assert trace.lifetime.mean() == pytest.approx(17_192, rel=0.5)
    assert len(trace) / trace.arrival[-1] == pytest.approx(total / 2_678_188, rel=0.05)
    twice = generate_vms(60_000, 5, density=2.0)
    assert twice.arrival[-1] == pytest.approx(trace.arrival[-1] / 2, rel=0.05)
    assert np.array_equal(generate_vms(100, 1).arrival, generate_vms(100, 1).arrival)
    assert not np.array_equal(generate_vms(100, 1).arrival, generate_vms(100, 2).arrival)


def test_a_trace_of_too_many_sizes_is_refused() -> None:
    cpu = 1.0 + np.arange(5_000) / 1_000
    with pytest.raises(InputError, match="round the amounts"):
        flavours_of(cpu, np.ones(5_000), DoubleRule())
    flavours, flavour = flavours_of(cpu[:40], np.ones(40), DoubleRule())
    assert len(set(flavour.tolist())) == 40 and flavours.need.shape[1] % 8 == 0


def test_traces_can_be_cut_and_laid_over_each_other() -> None:
    trace = generate_vms(300, 0)
    piece = part_of(trace, 100, 200)
    assert len(piece) == 100 and piece.cpu.tolist() == trace.cpu[100:200].tolist()
    both = superposed([piece, part_of(trace, 0, 100)], "both")
    assert len(both) == 200 and both.cpu.sum() == piece.cpu.sum() + trace.cpu[:100].sum()
    assert both.arrival[0] == 0 and (np.diff(both.arrival) >= 0).all()


def test_the_real_trace_has_the_published_figures() -> None:
    folder = real_data("vms") / "vms" / "huawei_east_1"
    trace = read_trace(folder / "Huawei-East-1-lt.csv")
    assert len(trace) == 116_313 and trace.events.size == 232_626
    for flavour in FLAVOURS:
        chosen = (trace.cpu == flavour.cpu) & (trace.mem == flavour.mem)
        assert chosen.sum() == flavour.machines
        assert np.median(trace.lifetime[chosen]) == pytest.approx(flavour.lifetime[3], abs=1)
    starts = read_starts(folder / "test_random_time_1000.npy", len(trace))
    assert starts.size == 1_000 and starts.min() >= SPLITS["test"][0] and starts.max() < SPLITS["test"][1]
    valid = read_starts(folder / "valid_random_time_150.npy", len(trace))
    assert valid.min() >= SPLITS["valid"][0] and valid.max() < SPLITS["valid"][1]
    sample = read_trace(folder / "vmagent_format_sample.csv")
    assert len(sample) == (sample.events >= 0).sum() > 0
