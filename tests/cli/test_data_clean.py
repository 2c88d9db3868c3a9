"""`proreus data clean` from the command line: its report, its exit codes, its memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proreus.bench.clean import plain_windows, write_log
from proreus.cli.main import main
from tests.cli.runner import run_process


def test_it_writes_windows_requests_and_an_account(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("time,service,cpu,mem\n0,a,500m,1Mi\n1,a,nan,1\n2,a,1,1\n")
    account = tmp_path / "account.json"
    words = ["data", "clean", str(log), "--out", str(tmp_path / "out"), "--pods", "2", "--json", str(account)]
    assert main(words) == 0
    assert "3 rows in = 2 out + 1 dropped" in capsys.readouterr().out
    document = json.loads(account.read_text())
    rules = {rule["rule"]: rule for rule in document["rules"]}
    assert rules["not finite"]["dropped"] == 1 and rules["not finite"]["first_lines"] == [3]
    assert (tmp_path / "out" / "windows.csv").read_text().splitlines() == [
        "window_start,pod,cpu,mem,requests",
        "0,a-0,0.5,1048576.0,1",
        "0,a-1,1.0,1.0,1",
    ]
    assert main([*words[:5], "--no-requests", "--strict"]) == 2
    assert "log.csv:3: not finite" in capsys.readouterr().err


def test_a_bad_command_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "clean", str(tmp_path / "none.csv"), "--out", str(tmp_path / "out")]) == 2
    assert main(["data", "clean", str(tmp_path / "none.csv"), "--out", str(tmp_path), "--window", "0"]) == 2
    assert main(["data", "clean", str(tmp_path / "none.csv")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 3 and "no such file" in error and "--window 0" in error


def test_a_log_that_would_lose_most_of_its_rows_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("time,pod,cpu,mem\n" + "".join(f"{i},p,{'nan' if i > 3 else 1},1\n" for i in range(10)))
    words = ["data", "clean", str(log), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "6 of 10 rows dropped: not finite 6 from line 6; --most-dropped is 0.5" in error
    assert not list((tmp_path / "out").iterdir())
    assert main([*words, "--most-dropped", "0.7"]) == 0
    assert main([*words, "--most-dropped", "2"]) == 2


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "clean", "--help"]) == 0
    assert "proreus data clean requests.csv --out" in " ".join(capsys.readouterr().out.split())


def test_memory_does_not_grow_with_the_file_and_sums_are_the_plain_ones(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    peaks = []
    for rows in (150_000, 300_000):
        write_log(log, rows)
        ended = run_process("data", "clean", str(log), "--out", "out", "--json", "account.json", cwd=tmp_path)
        assert ended.code == 0, ended
        account = json.loads((tmp_path / "account.json").read_text())
        assert account["rows_in"] == account["rows_out"] == rows
        peaks.append(account["peak_mib"])
    # The larger file is 5 MiB longer, and would be some 40 MiB as arrays and cells.
    assert peaks[1] < 200 and peaks[1] - peaks[0] < 20
    _, expected = plain_windows(log, 300_000)
    lines = (tmp_path / "out" / "windows.csv").read_text().splitlines()[1:]
    windows = {
        (int(start), pod): (float(cpu), int(count)) for start, pod, cpu, _, count in map(_cells, lines)
    }
    assert expected and all(
        windows[key][1] == count and abs(windows[key][0] - cpu) <= 1e-9 * cpu
        for key, (cpu, count) in expected.items()
    )


def _cells(line: str) -> list[str]:
    return line.split(",")
