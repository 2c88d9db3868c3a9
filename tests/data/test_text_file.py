"""Files that are not text are refused in one clear line, and fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from proreus.data.text_file import LONGEST_LINE, read_lines, read_text
from proreus.model.errors import InputError

Write = Callable[[str, str | bytes], Path]


def test_missing_file_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv: no such file"):
        read_text(tmp_path / "nowhere.csv")


def test_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is a directory"):
        read_text(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\xef\xbb\xbf"])
def test_empty_file_is_refused(write: Write, content: bytes) -> None:
    with pytest.raises(InputError, match="the file is empty"):
        read_text(write("empty", content))


@pytest.mark.parametrize(
    ("garbage", "message", "line"),
    [
        (b"a\nb\n" + bytes(range(256)) * 40_000, "NUL byte", 3),
        (b"a\n" + b"\xff\xfe\x80" * 3_500_000, "invalid UTF-8", 2),
    ],
)
def test_ten_megabytes_of_garbage_give_one_line_within_a_second(
    write: Write, garbage: bytes, message: str, line: int
) -> None:
    path = write("garbage", garbage)
    start = time.perf_counter()
    with pytest.raises(InputError, match=message) as caught:
        read_lines(path)
    assert time.perf_counter() - start < 1.0
    assert caught.value.line == line
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_byte_order_mark_and_carriage_returns_are_dropped(write: Write) -> None:
    assert read_lines(write("dos", b"\xef\xbb\xbfa,b\r\n1,2\r\n")) == ["a,b", "1,2", ""]


def test_overlong_line_is_refused_by_number(write: Write) -> None:
    with pytest.raises(InputError, match=r"long:2: a line of") as caught:
        read_lines(write("long", "ok\n" + "x" * (LONGEST_LINE + 1)))
    assert caught.value.line == 2
