"""Every file, folder and module that the documentation or a docstring names is there.

Looked at: what stands between backticks in the pages, and in the docstrings of `src`. A name is taken for one
of ours when it ends like a file of ours, begins like a package of ours, or joins a word to something that is
defined in `src`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "proreus"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
MODULES = sorted(path for path in SOURCE.rglob("*.py") if not path.stem.endswith("_pb2"))
_HISTORY = ("CHANGELOG.md",)
"""Pages that tell of what was, in the words of then."""
_CODE = re.compile(r"`([^`\n]+)`")
_DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)
_TOP = re.compile(r"^(?:async def|def|class) (\w+)|^(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_FILE = re.compile(r"[\w./-]*\w\.(?:py|proto|pyi)")
_DOTTED = re.compile(r"(?<![\w./-])proreus(?!\.(?:io|local|decision|db|yaml)\b)(?:\.\w+)+")
_MODULE = re.compile(r"[a-z_]\w*(?:\.(?!json)[a-z_]\w*)+")
_FOLDER = re.compile(r"[a-z_]\w*(?:/\w+)+(?:\.\w+)?/?")
_JOINED = re.compile(r"([a-z_]\w*)\.([A-Za-z_]\w*)(?:\(.*)?")
_ELSEWHERE = re.compile(
    r"(?:pods|nodes|jobs)/(?:log|exec|attach|portforward|binding|status|scale|eviction)|v1/\w+"  # of the API
    r"|windows/(?:serial|parallel|monitor)"  # scenarios
    r"|bench/examples"  # of LLMServingSim
    r"|envs\.(?:reset|step|get_attr)"  # a variable of VMAgent's
)
_NOT_A_NAME = re.compile(r"^/|[*<]|://|(?:^|/)[A-Z]+(?:/|$)")
"""Patterns, addresses, and places for a name: `worlds/W/policies`."""
_THEIRS = frozenset({"file.py", "mine.py", "scheduler_ppo_service.py", "scheduler_ppo_grpc.py"})
"""Files that a reader writes, or that the documents have."""

_OURS = frozenset({"src", "tests", "docs", "examples", "proreus"})


@cache
def _paths() -> frozenset[str]:
    """Of all files and folders, each with every ending of its path: `c.py`, `b/c.py`, `a/b/c.py`."""
    folders = ("src", "tests", "docs", "examples", ".ci", ".github")
    found = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts
    ]
    known = set()
    for path in [*found, *ROOT.iterdir()]:
        parts = path.relative_to(ROOT).parts
        for begin in range(len(parts)):
            ending = "/".join(parts[begin:])
            known |= {ending, ending.removesuffix(".py")}
    return frozenset(known)


@cache
def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


@cache
def _modules() -> dict[str, list[Path]]:
    """By every ending of their path: `registry`, `objects/registry`; a package by that of its folder."""
    named: dict[str, list[Path]] = {}
    for module in MODULES:
        place = module.parent if module.stem == "__init__" else module.with_suffix("")
        parts = place.relative_to(SOURCE.parent).parts
        for begin in range(len(parts)):
            named.setdefault("/".join(parts[begin:]), []).append(module)
    return named


@cache
def _defined(module: Path) -> frozenset[str]:
    """Names at the top of a module, and those of its classes' members."""
    names: set[str] = set()
    for node in ast.walk(_tree(module)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.ImportFrom(names=imported) | ast.Import(names=imported):
                names |= {(alias.asname or alias.name).split(".")[0] for alias in imported}
            case _:
                pass
    return frozenset(names)


@cache
def _top_level() -> frozenset[str]:
    """Functions, classes and constants of all modules."""
    names = (name for module in MODULES for name in _TOP.findall(module.read_text()))
    return frozenset(name for pair in names for name in pair if name and not name.startswith("_"))


def _dotted_is_there(name: str) -> bool:
    """`proreus.a.b.c`: a module, or something that a module or package has."""
    place = SOURCE
    for number, part in enumerate(parts := name.split(".")[1:]):
        if (place / part).is_dir():
            place /= part
            continue
        module = place / f"{part}.py"
        if not module.exists():
            module, number = place / "__init__.py", number - 1
        rest = parts[number + 1 :]
        return not rest or (module.exists() and rest[0] in _defined(module) | _lazy(module))
    return True


def _lazy(module: Path) -> frozenset[str]:
    """What a package hands out when it is asked for, by its name in a table; `envs` by the worlds' own."""
    tables = [module, SOURCE / "worlds" / "__init__.py"] if module.parent.name == "envs" else [module]
    return frozenset(name for table in tables for name in re.findall(r'"(\w+)"', table.read_text()))


@cache
def _packages() -> frozenset[str]:
    return frozenset(path.name for path in SOURCE.rglob("*") if path.is_dir()) | {"tests", "docs"}


def missing_in(text: str) -> list[str]:
    """What a page names and nobody has."""
    missing = [name for name in _DOTTED.findall(text) if not _dotted_is_there(name)]
    for code in _CODE.findall(_FENCE.sub("", text)):
        for word in (part.removeprefix("./") for part in re.split(r"[\s,;:()\[\]{}=]+", code)):
            if word in _THEIRS or _NOT_A_NAME.search(word) or _ELSEWHERE.fullmatch(word):
                continue
            if _FILE.fullmatch(word):
                there = word.removeprefix("../") in _paths()
            elif _FOLDER.fullmatch(word):
                there = word.split("/")[0] not in _packages() or _folder_is_there(word.rstrip("/"))
            elif _MODULE.fullmatch(word) and word.split(".")[0] in _tops():
                there = _module_is_there(word.split("."))
            else:
                continue
            if not there:
                missing.append(word)
    return missing


@cache
def _tops() -> frozenset[str]:
    return frozenset(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")


def _module_is_there(parts: list[str]) -> bool:
    """`engine.objects.registry`, `policies.plugins.load`: a folder, a module, or what stands in it."""
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end])
        modules = _modules().get(path, [])
        if end == len(parts) and (modules or path in _paths()):
            return True
        if any(parts[end] in _defined(module) | _lazy(module) for module in modules):
            return True
    return False


def _folder_is_there(word: str) -> bool:
    if word in _paths():
        return True
    path, _, name = word.rpartition(".")
    return any(name in _defined(module) for module in _modules().get(path, ()))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in _HISTORY],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_what_a_page_names_is_there(page: Path) -> None:
    missing = missing_in(page.read_text())
    if page.parent.name == "documents":  # they name files of the documents, too
        missing = [name for name in missing if name.split("/")[0].split(".")[0] in _OURS]
    assert missing == []


def test_what_docstrings_name_is_there() -> None:
    missing: dict[str, list[str]] = {}
    for module in MODULES:
        for text in _DOCSTRING.findall(module.read_text()):
            for name in [*missing_in(text), *_joined_to_nothing(module, text)]:
                missing.setdefault(module.relative_to(SOURCE).as_posix(), []).append(name)
    assert missing == {}


def _joined_to_nothing(module: Path, text: str) -> Iterator[str]:
    """`where.what`, where some module has `what` and none is called `where`."""
    for code in _CODE.findall(text):
        joined = _JOINED.fullmatch(code)
        known = joined and (joined[1] in _modules() or joined[1] in _defined(module))
        if joined and joined[2] in _top_level() and not known:
            yield code


def test_the_law_finds_what_is_not_there() -> None:
    assert missing_in("see `engine/objects/registry.py` and `contract/world.py`") == []
    assert missing_in("`engine/objects/registry.Registry` of `proreus.engine.objects.registry`") == []
    assert missing_in("`engine/agents/task.py`, `engine/agents`, `proreus.engine.wants.Want`") == [
        "proreus.engine.wants.Want",
        "engine/agents/task.py",
        "engine/agents",
    ]
    assert list(_joined_to_nothing(MODULES[0], "`opening.open_store`")) == ["opening.open_store"]
