"""Policies and scenarios of one's own, from outside the package.

`./mine.py:MyPolicy` names an attribute of a file, `package.module:MyPolicy` one of an installed module, and a
plain name may be an entry point of the group `proreus.policies`. What is found there may be a class, a
function that makes a policy, or a policy. Whatever goes wrong in it is told as its error and not as ours.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from proreus.model.errors import ProreusError, UsageError, WorkError
from proreus.policies.protocol import Explanation

GROUP = "proreus.policies"
_OFFERED = ("decide", "explain", "unsure")


def find_policy(name: str, seed: int) -> ForeignPolicy | None:
    """The stranger's policy of that name; None where the name is no reference to one."""
    for entry in offered(name):
        with told_as_its_own(f"policy {name}"):
            return ForeignPolicy(name, entry.load(), seed)
    if ":" not in name:
        return None
    return ForeignPolicy(name, attribute_of(name, "policy"), seed)


def offered(name: str) -> Iterable[EntryPoint]:
    """The policies of that name that installed packages offer."""
    return entry_points(group=GROUP, name=name)


def attribute_of(reference: str, what: str) -> Any:
    """What `file.py:Name` or `package.module:Name` refers to."""
    place, _, attribute = reference.rpartition(":")
    if not place or not attribute.isidentifier():
        raise UsageError(f"{what} {reference!r}: write it as file.py:Name or package.module:Name")
    with told_as_its_own(f"{what} {reference}"):
        module = _module_of(place, what, reference)
    try:
        return getattr(module, attribute)
    except AttributeError:
        near = [
            name for name, member in vars(module).items() if callable(member) and not name.startswith("_")
        ]
        has = f" (it has {', '.join(near)})" if near else ""
        raise UsageError(f"{what} {reference!r}: there is no {attribute!r} in {place}{has}") from None


def _module_of(place: str, what: str, reference: str) -> ModuleType:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
                raise UsageError(f"{what} {reference!r}: there is no module {place!r}") from None
            raise
    path = Path(place).resolve()
    if not path.is_file():
        raise UsageError(f"{what} {reference!r}: there is no file {place}")
    # A name of its own for each file: two files called mine.py are two modules, one loaded twice is one.
    name = f"proreus_own_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, str(path)))
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _SourceLoader(SourceFileLoader):
    """Executes what the file says, and nothing that others may have left beside it in `__pycache__`."""

    def get_code(self, fullname: str) -> CodeType:
        """Compiled anew."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class ForeignPolicy:
    """A policy from outside the package as one of ours; it needs a `decide` and nothing else."""

    def __init__(self, name: str, source: Any, seed: int) -> None:
        self.name = name
        self._source = source
        with told_as_its_own(f"policy {name}"):
            self._policy = _made(source, seed)
            # Looking is running its code, too, where these are properties.
            offers = [method for method in _OFFERED if callable(getattr(self._policy, method, None))]
        if "decide" not in offers:
            raise UsageError(f"policy {name!r}: {type(self._policy).__name__} has no method `decide`")
        if "explain" in offers:
            self.explain = self._explain  # only where it has one: whoever asks looks for the attribute
        if "unsure" in offers:
            self.unsure = self._unsure

    def decide(self, observation: Any, /) -> Any:
        """The stranger's decision."""
        with told_as_its_own(f"policy {self.name}"):
            return self._policy.decide(observation)

    def fresh(self, seed: int) -> ForeignPolicy:
        """Made anew, or copied as it was given: nothing is remembered from another run."""
        return ForeignPolicy(self.name, self._source, seed)

    @property
    def remark(self) -> str:
        """What it says of what it did."""
        with told_as_its_own(f"policy {self.name}"):
            return str(getattr(self._policy, "remark", ""))

    def _unsure(self, observation: Any, /) -> str:
        with told_as_its_own(f"policy {self.name}"):
            return str(self._policy.unsure(observation) or "")

    def _explain(self, observation: Any, /) -> Explanation:
        with told_as_its_own(f"policy {self.name}"):
            explanation = self._policy.explain(observation)
            # What it hands over is its code as well, down to how a number is shown.
            if not isinstance(explanation, Explanation):
                raise WorkError(f"policy {self.name}: explain returned {type(explanation).__name__}")
            for verdict in explanation.verdicts:
                values: list[Any] = [verdict.total, *verdict.scores.values()]
                for value in values:
                    if not isinstance(value, Real):
                        message = f"explain: {verdict.place}: {value!r} is no number"
                        raise WorkError(f"policy {self.name}: {message}")
        return explanation


def _made(source: Any, seed: int) -> Any:
    """A policy from a class or a function, with the seed where it takes one; or a copy of the policy itself,
    so that no run remembers another."""
    if not (inspect.isclass(source) or inspect.isroutine(source)):
        fresh: Callable[[int], Any] | None = getattr(source, "fresh", None)
        return copy.deepcopy(source) if fresh is None else fresh(seed)
    try:
        takes_seed = "seed" in inspect.signature(source).parameters
    except ValueError:  # something built in, which has no signature
        takes_seed = False
    make: Callable[..., Any] = source
    return make(seed=seed) if takes_seed else make()


@contextmanager
def told_as_its_own(whose: str) -> Iterator[None]:
    """An error in a stranger's code, in one line with the place where it happened."""
    try:
        yield
    except ProreusError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:  # KeyboardInterrupt is the user's
        # Where it happened in their file; a call that did not even begin has no line of theirs.
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        at = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        raise WorkError(f"{whose}: {_described(error)}{at}") from error


def _described(error: BaseException) -> str:
    """Its own words, where it can say them."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - how it is told is a stranger's code
        return type(error).__name__
