"""Cleaning rule by rule: what each does to a small file, and what it says where it refuses."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest

from proreus.data.cleaning.options import CleaningOptions, ColumnOptions, RepairOptions
from proreus.data.cleaning.pipeline import clean
from proreus.data.cleaning.report import CleaningRule, Report
from proreus.model.errors import InputError, UsageError
from tests.real_data import real_data

MIB = 2.0**20


def cleaned(
    folder: Path, lines: list[str], options: CleaningOptions | None = None
) -> tuple[Report, list[dict[str, str]], list[dict[str, str]]]:
    """(report, windows, requests) of a file with these lines."""
    path = folder / "in.csv"
    path.write_text("\n".join(lines) + "\n")
    report = clean(path, folder / "out", options or CleaningOptions())
    return report, table(folder / "out" / "windows.csv"), table(folder / "out" / "requests.csv")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def monitor(values: list[str], cpu: str = "0.25") -> list[str]:
    """A five-minute export of one pod; values are its memory."""
    return ["time,pod,cpu,mem"] + [f"{1200 + 300 * i},p,{cpu},{value}" for i, value in enumerate(values)]


def test_requests_are_summed_and_handed_out_in_turn_across_windows(tmp_path: Path) -> None:
    lines = ["time,cpu,mem", "0,1,10", "1,2,20", "2,4,40", "300,8,80", "301,16,160"]
    report, windows, requests = cleaned(tmp_path, lines, CleaningOptions(pods=2))
    assert report.kind == "requests"
    assert [row["pod"] for row in requests] == ["pod-0", "pod-1", "pod-0", "pod-1", "pod-0"]
    assert [tuple(row.values()) for row in windows] == [
        ("0", "pod-0", "5.0", "50.0", "2"),
        ("0", "pod-1", "2.0", "20.0", "1"),
        ("300", "pod-0", "16.0", "160.0", "1"),
        ("300", "pod-1", "8.0", "80.0", "1"),
    ]


def test_services_take_turns_each_on_its_own(tmp_path: Path) -> None:
    lines = ["ts,service,cpu,memory", "0,a,1,1", "1,b,1,1", "2,a,1,1"]
    _, _, requests = cleaned(tmp_path, lines, CleaningOptions(pods=2))
    assert [row["pod"] for row in requests] == ["a-0", "a-1", "b-0"]


def test_a_short_gap_repeats_the_last_value_of_a_monitor_and_counts_no_sample(tmp_path: Path) -> None:
    lines = monitor(["1", "2", "3", "4", "5"])
    del lines[3]  # the third sample
    report, windows, _ = cleaned(tmp_path, lines)
    assert report.kind == "monitor"
    assert [(row["window_start"], row["mem"], row["requests"]) for row in windows] == [
        ("1200", "1.0", "1"), ("1500", "2.0", "1"), ("1800", "2.0", "0"), ("2100", "4.0", "1"),
        ("2400", "5.0", "1"),
    ]  # fmt: skip
    assert (report.tallies[CleaningRule.GAP].repaired, report.windows_filled) == (1, 1)
    assert report.tallies[CleaningRule.GAP].examples == [4]


def test_a_gap_of_a_request_log_has_no_requests_and_is_no_fault(tmp_path: Path) -> None:
    lines = ["time,pod,cpu,mem", "0,p,1,1", "1,p,1,1", "601,p,1,1"]
    strict = CleaningOptions(repairs=RepairOptions(strict=True))
    _, windows, _ = cleaned(tmp_path, lines, strict)
    assert [(row["window_start"], row["cpu"], row["requests"]) for row in windows] == [
        ("0", "2.0", "2"), ("300", "0.0", "0"), ("600", "1.0", "1"),
    ]  # fmt: skip


def test_a_gap_beyond_the_longest_is_refused_with_its_line(tmp_path: Path) -> None:
    lines = ["time,pod,cpu,mem", "0,p,1,1", "1,p,1,1", "90000,p,1,1"]
    with pytest.raises(InputError, match=r"in\.csv:4: gap: 89700 seconds without a row"):
        cleaned(tmp_path, lines)
    assert not list((tmp_path / "out").iterdir()), "a refused file leaves nothing behind"
    report, windows, _ = cleaned(tmp_path, lines, CleaningOptions(repairs=RepairOptions(gaps="skip")))
    assert (len(windows), report.windows_filled) == (2, 0)


def test_even_steps_are_a_monitor_and_others_are_requests(tmp_path: Path) -> None:
    even = ["time,pod,cpu,mem"] + [f"{60 * i + i % 2},p,{i},8" for i in range(10)]
    report, windows, _ = cleaned(tmp_path, even)
    assert (report.kind, windows[0]["cpu"], windows[0]["requests"]) == ("monitor", "2.0", "5")
    uneven = ["time,pod,cpu,mem"] + [f"{7 * i * i},p,{i},8" for i in range(10)]
    assert cleaned(tmp_path, uneven)[0].kind == "requests"


def test_an_export_of_many_pods_in_the_order_of_time_is_a_monitor_too(tmp_path: Path) -> None:
    lines = ["time,pod,cpu,mem"] + [f"{300 * i},pod-{pod},0.5,8" for i in range(5) for pod in range(3000)]
    report, windows, _ = cleaned(tmp_path, lines)
    assert (report.kind, report.pods, len(windows)) == ("monitor", 3000, 15_000)


def test_of_monitor_samples_at_one_time_the_last_stays_and_repeats_go(tmp_path: Path) -> None:
    lines = monitor(["1", "2", "3", "4"])
    lines[2:2] = [lines[1], "1200,p,0.25,9"]
    report, windows, _ = cleaned(tmp_path, lines)
    assert report.tallies[CleaningRule.DUPLICATE].dropped == 1
    assert report.tallies[CleaningRule.DUPLICATE].examples == [3]
    assert report.tallies[CleaningRule.SAME_TIME].dropped == 1
    assert [row["mem"] for row in windows] == ["9.0", "2.0", "3.0", "4.0"]
    first = CleaningOptions(kind="monitor", repairs=RepairOptions(same_time="first"))
    assert cleaned(tmp_path, lines, first)[1][0]["mem"] == "1.0"


@pytest.mark.parametrize(
    ("cpu", "mem", "cores", "size"),
    [
        ("500m", "1Gi", 0.5, 2.0**30),
        ("2", "128974848", 2.0, 128974848.0),
        ("250000u", "100MiB", 0.25, 100 * MIB),
        ("1 core", "5k", 1.0, 5000.0),
        ("1e-1", "64 KiB", 0.1, 65536.0),
    ],
)
def test_suffixes_tell_the_unit(tmp_path: Path, cpu: str, mem: str, cores: float, size: float) -> None:
    strict = CleaningOptions(repairs=RepairOptions(strict=True))
    _, windows, _ = cleaned(tmp_path, ["time,pod,cpu,mem", f"0,p,{cpu},{mem}"], strict)
    assert (float(windows[0]["cpu"]), float(windows[0]["mem"])) == (cores, size)


def test_the_header_or_a_flag_tells_the_unit_of_bare_numbers(tmp_path: Path) -> None:
    lines = ["time_ms,pod,cpu_millicores,mem_mib", "1000,p,1500,3"]
    _, windows, requests = cleaned(tmp_path, lines)
    assert (windows[0]["cpu"], float(windows[0]["mem"]), requests[0]["time"]) == ("1.5", 3 * MIB, "1")
    forced = CleaningOptions(columns=ColumnOptions(cpu_unit="cores", mem_unit="gib", time_unit="s"))
    _, windows, requests = cleaned(tmp_path, lines, forced)
    assert (windows[0]["cpu"], float(windows[0]["mem"])) == ("1500.0", 3 * 2**30)
    assert requests[0]["time"] == "1000"


@pytest.mark.parametrize(("power", "mixed"), [(1, "40960"), (2, "40"), (3, "0.0390625")])
def test_a_sample_in_another_memory_unit_than_its_pod_is_converted(
    tmp_path: Path, power: int, mixed: str
) -> None:
    values = [str(int(40 * MIB) + i) for i in range(20)]
    values[11] = mixed
    report, windows, _ = cleaned(tmp_path, monitor(values))
    assert float(windows[11]["mem"]) == 40 * MIB
    assert report.tallies[CleaningRule.MEM_UNIT].repaired == 1
    assert report.tallies[CleaningRule.MEM_UNIT].examples == [13]
    forced = CleaningOptions(columns=ColumnOptions(mem_unit="bytes"))
    assert float(cleaned(tmp_path, monitor(values), forced)[1][11]["mem"]) == float(mixed)


def test_millicores_among_cores_are_found_by_magnitude_but_a_busy_pod_is_not(tmp_path: Path) -> None:
    lines = monitor(["1"] * 20)
    lines[6] = lines[6].replace("0.25", "260")
    lines[9] = lines[9].replace("0.25", "3.5")  # a leap, but of believable cores
    report, windows, _ = cleaned(tmp_path, lines)
    assert (windows[5]["cpu"], windows[8]["cpu"]) == ("0.26", "3.5")
    assert report.tallies[CleaningRule.CPU_UNIT].repaired == 1
    with pytest.raises(InputError, match=r"in\.csv:7: cpu unit"):
        cleaned(tmp_path, lines, CleaningOptions(repairs=RepairOptions(strict=True)))


def test_a_pod_counted_in_millicores_is_converted_as_a_whole(tmp_path: Path) -> None:
    lines = monitor(["1"] * 6, cpu="250")
    lines += [f"{1200 + 300 * i},q,0.5,1" for i in range(6)]
    report, windows, _ = cleaned(tmp_path, lines)
    assert {(row["pod"], row["cpu"]) for row in windows} == {("p", "0.25"), ("q", "0.5")}
    assert report.tallies[CleaningRule.CPU_UNIT].repaired == 6


def test_clock_jumps_are_refused_dropped_or_rebased(tmp_path: Path) -> None:
    lines = ["time,pod,cpu,mem", "5000,p,1,1", "5010,p,1,1", "1000,p,1,1", "1020,p,1,1"]
    with pytest.raises(InputError, match=r"in\.csv:4: clock jump: .*--clock rebase"):
        cleaned(tmp_path, lines)
    dropping = RepairOptions(clock="drop", most_dropped=1.0)
    report, _, requests = cleaned(tmp_path, lines, CleaningOptions(repairs=dropping))
    assert ([row["time"] for row in requests], report.rows_dropped) == (["5000", "5010"], 2)
    report, _, requests = cleaned(tmp_path, lines, CleaningOptions(repairs=RepairOptions(clock="rebase")))
    assert [row["time"] for row in requests] == ["5000", "5010", "5010", "5030"]
    assert report.tallies[CleaningRule.CLOCK_JUMP].repaired == 2


@pytest.mark.parametrize(("kind", "step", "moved"), [("requests", 1, 0), ("monitor", 300, 300)])
def test_a_single_time_far_ahead_is_the_fault_and_not_the_rows_after_it(
    tmp_path: Path, kind: Any, step: int, moved: int
) -> None:
    times = [9_000 + step * i for i in range(1_000)]
    ahead, due = 400, times[400]
    times[ahead] += 3_000
    # Another pod beside it keeps its own time.
    lines = ["time,pod,cpu,mem"] + [f"{t},{pod},1,{pod}" for t in times for pod in (7, 8)]
    del lines[2 + 2 * ahead]

    def with_clock(clock: Any) -> tuple[Report, list[str]]:
        options = CleaningOptions(kind=kind, repairs=RepairOptions(clock=clock, gaps="skip"))
        report, _, requests = cleaned(tmp_path, lines, options)
        return report, [row["time"] for row in requests if row["pod"] == "7"]

    with pytest.raises(InputError, match=rf"in\.csv:{2 * ahead + 2}: clock spike: .*--clock rebase or drop"):
        with_clock("refuse")
    others = [str(t) for i, t in enumerate(times) if i != ahead]
    report, kept = with_clock("drop")
    assert (report.rows_dropped, kept) == (1, others)
    report, kept = with_clock("rebase")
    assert (
        report.tallies[CleaningRule.CLOCK_SPIKE].repaired == 1
        and report.tallies[CleaningRule.CLOCK_JUMP].repaired == 0
    )
    place = str(due - step + moved)
    assert sorted(kept) == sorted([*others, place]) and report.rows_dropped == 0


def test_a_true_gap_is_no_spike(tmp_path: Path) -> None:
    times = [0, 1, 2, 900, 901, 870, 2_000]
    lines = ["time,pod,cpu,mem"] + [f"{t},p,1,{i}" for i, t in enumerate(times)]
    report, _, requests = cleaned(tmp_path, lines)
    assert [int(row["time"]) for row in requests] == sorted(times)
    assert report.tallies[CleaningRule.LATE].repaired == 1
    strict = CleaningOptions(repairs=RepairOptions(strict=True))
    assert cleaned(tmp_path, [line for line in lines if "870" not in line], strict)[0].rows_out == 6


def test_a_log_that_loses_half_of_its_rows_is_refused_with_the_account(tmp_path: Path) -> None:
    lines = ["time,pod,cpu,mem"] + [f"{1_600_000_000 + i},p,1,1" for i in range(50)]
    lines += [f"{1_600_000_050_000 + 1000 * i},p,1,1" for i in range(50)]  # milliseconds from here on
    with pytest.raises(
        InputError, match=r"50 of 100 rows dropped: time 50 from line 52; --most-dropped is 0.5"
    ):
        cleaned(tmp_path, lines)
    assert not list((tmp_path / "out").iterdir()), "a refused file leaves nothing behind"
    allowed = CleaningOptions(repairs=RepairOptions(most_dropped=0.51))
    assert cleaned(tmp_path, lines, allowed)[0].rows_out == 50
    none = CleaningOptions(repairs=RepairOptions(most_dropped=0.0))
    assert cleaned(tmp_path, lines[:51], none)[0].rows_out == 50
    with pytest.raises(InputError, match="1 of 51 rows dropped"):
        cleaned(tmp_path, lines[:52], none)


def test_pods_are_those_that_have_rows(tmp_path: Path) -> None:
    lines = ["time,service,cpu,mem", "0,a,1,1", "1,a,1,1", "2,b,1,1", "3,c,nan,1"]
    assert cleaned(tmp_path, lines, CleaningOptions(pods=2))[0].pods == 3
    assert cleaned(tmp_path, lines, CleaningOptions(pods=50))[0].pods == 3
    lines[0] = "time,pod,cpu,mem"
    assert cleaned(tmp_path, lines)[0].pods == 2


def test_a_strict_cleaning_names_the_first_fault_of_the_file(tmp_path: Path) -> None:
    lines = ["time,pod,cpu,mem"] + [f"{i},p,1,1" for i in range(20)]
    lines[3], lines[9] = lines[2], "8,p,nan,1"  # lines 4 and 10
    strict = CleaningOptions(repairs=RepairOptions(strict=True))
    with pytest.raises(InputError, match=r"in\.csv:4: duplicate"):
        cleaned(tmp_path, lines, strict)
    refusing = RepairOptions(duplicates="refuse", bad_values="refuse")
    with pytest.raises(InputError, match=r"in\.csv:4: duplicate"):
        cleaned(tmp_path, lines, CleaningOptions(repairs=refusing))


def test_a_row_a_little_late_is_sorted_into_its_place(tmp_path: Path) -> None:
    lines = ["time,pod,cpu,mem", "295,p,1,1", "310,p,2,2", "290,p,4,4", "320,p,8,8"]
    report, windows, requests = cleaned(tmp_path, lines)
    assert [row["time"] for row in requests] == ["290", "295", "310", "320"]
    assert [row["cpu"] for row in windows] == ["5.0", "10.0"]
    assert report.tallies[CleaningRule.LATE].repaired == 1


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ("5,p,-1,1", CleaningRule.NEGATIVE),
        ("5,p,1,nan", CleaningRule.NOT_FINITE),
        ("5,p,inf,1", CleaningRule.NOT_FINITE),
        ("5,p,1e400,1", CleaningRule.NOT_FINITE),
        ("5,p,,1", CleaningRule.MISSING),
        ("5,p,1,null", CleaningRule.MISSING),
        ("5,p,1_000,1", CleaningRule.NOT_A_NUMBER),
        ("5,p,1,7 parsecs", CleaningRule.NOT_A_NUMBER),
        ("5,p,1", CleaningRule.CELLS),
        ("5,p,1,1,1", CleaningRule.CELLS),
        ("soon,p,1,1", CleaningRule.TIME),
        (",p,1,1", CleaningRule.TIME),
        ("5,,1,1", CleaningRule.NAME),
    ],
)
def test_a_row_that_cannot_be_read_is_dropped_or_refused_with_its_line(
    tmp_path: Path, row: str, rule: CleaningRule
) -> None:
    lines = ["time,pod,cpu,mem", "1,p,1,1", row, "9,p,2,2"]
    report, windows, _ = cleaned(tmp_path, lines)
    assert (report.rows_in, report.rows_out, report.tallies[rule].dropped) == (3, 2, 1)
    assert (windows[0]["cpu"], report.tallies[rule].examples) == ("3.0", [3])
    with pytest.raises(InputError, match=rf"in\.csv:3: {rule.title}"):
        cleaned(tmp_path, lines, CleaningOptions(repairs=RepairOptions(strict=True)))


def test_bad_values_may_become_zero(tmp_path: Path) -> None:
    lines = ["time,pod,cpu,mem", "1,p,-1,4", "2,p,2,nan"]
    report, windows, _ = cleaned(tmp_path, lines, CleaningOptions(repairs=RepairOptions(bad_values="zero")))
    assert (windows[0]["cpu"], windows[0]["mem"], windows[0]["requests"]) == ("2.0", "4.0", "2")
    assert (
        report.tallies[CleaningRule.NEGATIVE].repaired,
        report.tallies[CleaningRule.NOT_FINITE].repaired,
    ) == (1, 1)


def test_gzip_quotes_marks_and_carriage_returns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "in.csv.gz"
    text = '\ufefftime,pod,cpu,mem\r\n2022-04-11T03:49:15.5Z,"a,""b""",1,2\r\n\r\n'
    text += "2022-04-11T11:49:16+08:00,c,1,2"
    path.write_bytes(gzip.compress(text.encode()))
    report = clean(path, tmp_path / "out", CleaningOptions())
    rows = table(tmp_path / "out" / "requests.csv")
    assert [(row["time"], row["pod"]) for row in rows] == [("1649648955.5", 'a,"b"'), ("1649648956", "c")]
    assert report.rows_in == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"time,pod,cpu,mem\n", r"no row of this file is left after cleaning \(0 of 0 rows dropped\)"),
        (
            b"time,pod,cpu,mem\n1,p,nan,1\n,p,1,1\n",
            "is left .*dropped: time 1 from line 3, not finite 1 from line 2",
        ),
        (b"time,pod,cpu\n1,p,1\n", r"in\.csv:1: mem: no such column"),
        (b"time,timestamp,cpu,mem\n1,1,1,1\n", r"in\.csv:1: time: several columns"),
        (b"time,pod,cpu,mem\n1,p,1,1\n2,\0,1,1\n", r"in\.csv:3: not a text file"),
        (b"time,pod,cpu,mem\n1,\xff,1,1\n", r"in\.csv:2: not a text file"),
        (b"time,pod,cpu,mem\n1,p,1,1\n" + b"x" * 70_000, r"in\.csv:3: a line of over"),
        (b'time,pod,cpu,mem\n1,"p,1,1\n', r"in\.csv:2: not a table"),
        (b"\x1f\x8b\x08\x00", "not a whole gzip file"),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        clean(path, tmp_path / "out", CleaningOptions())


def test_more_rows_than_may_be_held_are_refused(tmp_path: Path) -> None:
    lines = ["time,cpu,mem"] + [f"{i},1,1" for i in range(50)]
    with pytest.raises(InputError, match="50 rows wait for their windows"):
        cleaned(tmp_path, lines, CleaningOptions(most_held=49))


def test_the_input_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("time,cpu,mem\n1,1,1\n")
    with pytest.raises(UsageError, match="take the place of the input"):
        clean(path, tmp_path, CleaningOptions())


@pytest.mark.parametrize(
    "options",
    [
        {"window": 0.5},
        {"pods": -1},
        {"most_held": 0},
        {"repairs": RepairOptions(late=-1)},
        {"repairs": RepairOptions(most_dropped=1.5)},
    ],
)
def test_options_out_of_bounds_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CleaningOptions(**options)


def test_the_real_monitor_export_needs_no_repair_but_its_gaps(tmp_path: Path) -> None:
    path = real_data("vms/k8s_monitor_2022") / "vms" / "k8s_monitor_2022" / "pod_monitor_5min.csv"
    report = clean(path, tmp_path, CleaningOptions())
    assert (report.kind, report.pods) == ("monitor", 8)
    assert (report.rows_in, report.rows_out) == (4787, 4787)
    touched = {rule for rule, tally in report.tallies.items() if tally.repaired or tally.dropped}
    assert touched == {CleaningRule.GAP}
    # Five samples are missing; the other eight windows are skipped by samples 300.04 s apart, once a pod.
    assert (report.windows_out, report.windows_filled) == (4800, 13)
    with path.open(newline="") as file:
        raw = [(row["pod"], float(row["cpu_cores"]), float(row["mem_bytes"])) for row in csv.DictReader(file)]
    kept = [(r["pod"], float(r["cpu"]), float(r["mem"])) for r in table(tmp_path / "requests.csv")]
    assert sorted(kept) == sorted(raw)
