"""Reads a table of any length as blocks of cells by column, with the line number of every row.

Where every line of a block has the same number of cells and no quote, the block is cut up in one go;
only other blocks are looked at line by line.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from proreus.data.text_file import LONGEST_LINE
from proreus.model.errors import InputError
from proreus.model.files import open_regular

BLOCK_BYTES = 2 << 20
_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"

Progress = Callable[[int, int], None]
"""Hears (bytes done, bytes in all)."""


class Block(NamedTuple):
    """Some rows of a table, in the order of the file."""

    lines: npt.NDArray[np.int64]
    columns: list[list[bytes]]
    """Cells by the position of their column in the header."""
    texts: list[bytes]
    """The whole line of every row."""
    misfits: npt.NDArray[np.int64]
    """Line numbers of rows with cells missing or in excess; they have no cells here."""


@dataclass(frozen=True)
class LogFile:
    """A comma-separated file with a header, plain or gzipped."""

    path: Path
    block_bytes: int = BLOCK_BYTES

    def header(self) -> list[str]:
        """The names of the columns."""
        for _, text in self._texts(None):
            first = text.split(b"\n", 1)[0]
            return [name.decode("utf-8", "replace").strip() for name in _cells(self.path, 1, first)]
        raise InputError("the file is empty", file=self.path)

    def blocks(self, progress: Progress | None = None) -> Iterator[Block]:
        """The rows below the header."""
        width = len(self.header())
        for line, text in self._texts(progress):
            if line == 1:
                line, text = 2, text.partition(b"\n")[2]
            if text:
                yield _block(self.path, line, text, width)

    def _texts(self, progress: Progress | None) -> Iterator[tuple[int, bytes]]:
        """(number of the first line, whole lines) again and again; every line ends in a newline."""
        line, rest = 1, b""
        total = 0
        try:
            with open_regular(self.path) as raw:
                total = os.fstat(raw.fileno()).st_size
                packed = raw.read(2) == _GZIP
                raw.seek(0)
                stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
                while data := stream.read(self.block_bytes):
                    whole, newline, rest = (rest + data).rpartition(b"\n")
                    if len(rest) > LONGEST_LINE:
                        number = line + whole.count(b"\n") + len(newline)
                        raise InputError(
                            f"a line of over {LONGEST_LINE} characters", file=self.path, line=number
                        )
                    if newline:
                        yield line, _text(self.path, line, whole + newline)
                        line += whole.count(b"\n") + 1
                    if progress is not None:
                        progress(raw.tell(), total)
                if rest:
                    yield line, _text(self.path, line, rest + b"\n")
        except FileNotFoundError:
            raise InputError("no such file", file=self.path) from None
        except IsADirectoryError:
            raise InputError("this is a directory, a file is needed", file=self.path) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"not a whole gzip file: {error}", file=self.path, line=line) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=self.path) from None


def _text(path: Path, line: int, text: bytes) -> bytes:
    """The block without byte-order mark and carriage returns; a NUL byte is the sure sign of no text."""
    if line == 1:
        text = text.removeprefix(_MARK)
    zero = text.find(b"\0")
    if zero >= 0:
        raise InputError(
            "not a text file (it holds a NUL byte)", file=path, line=line + text.count(b"\n", 0, zero)
        )
    return text.replace(b"\r\n", b"\n") if b"\r" in text else text


def _block(path: Path, first: int, text: bytes, width: int) -> Block:
    lines = text.split(b"\n")
    lines.pop()
    count = len(lines)
    none = np.zeros(0, np.int64)
    if b'"' not in text:
        codes = np.frombuffer(text, np.uint8)
        ends = codes[(codes == ord(",")) | (codes == ord("\n"))] == ord("\n")
        if len(ends) == count * width and ends[width - 1 :: width].all():
            cells = text[:-1].replace(b"\n", b",").split(b",")
            if width > 1 or b"" not in cells:
                numbers = np.arange(first, first + count, dtype=np.int64)
                return Block(numbers, [cells[i::width] for i in range(width)], lines, none)
    return _ragged(path, first, lines, width)


def _ragged(path: Path, first: int, lines: Sequence[bytes], width: int) -> Block:
    numbers, texts, misfits = [], [], []
    columns: list[list[bytes]] = [[] for _ in range(width)]
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue  # a blank line is no row
        cells = _cells(path, number, line)
        if len(cells) != width:
            misfits.append(number)
            continue
        numbers.append(number)
        texts.append(line)
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    return Block(np.array(numbers, np.int64), columns, texts, np.array(misfits, np.int64))


def _cells(path: Path, number: int, line: bytes) -> list[bytes]:
    if b'"' not in line:
        return line.split(b",")
    try:
        parsed = next(csv.reader([line.decode("utf-8", "surrogateescape")], strict=True))
    except csv.Error as error:
        raise InputError(f"not a table: {error}", file=path, line=number) from None
    return [cell.encode("utf-8", "surrogateescape") for cell in parsed]
