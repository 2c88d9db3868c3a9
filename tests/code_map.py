"""A map of the code: every package and module with the first sentence of its docstring.

python -m tests.code_map [PACKAGE]      # `make map`
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

_SOURCE = Path(__file__).parents[1] / "src" / "proreus"


def first_sentence(file: Path) -> str:
    """Of the module's docstring, on one line; empty where it has none."""
    text = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split())
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def lines(folder: Path, depth: int = 0) -> Iterator[str]:
    """Packages before what is in them, alphabetically."""
    about = folder / "__init__.py"
    yield f"{'  ' * depth}{folder.name}/  {first_sentence(about) if about.exists() else ''}".rstrip()
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if path.is_dir() and any(path.rglob("*.py")):
            yield from lines(path, depth + 1)
        elif path.suffix == ".py" and path.name != "__init__.py" and not path.stem.endswith("_pb2"):
            yield f"{'  ' * (depth + 1)}{path.stem}  {first_sentence(path)}".rstrip()


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines(_SOURCE.joinpath(*sys.argv[1:])))
