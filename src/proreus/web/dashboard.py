"""The dashboard as a server of ours asks for it: its files, and the answers behind its pages.

`proreus dashboard`, `proreus up` and `proreus serve` each hand one to their server, which checks names,
origins and tokens before it asks. What the pages show of a cluster or of a service they ask of that server's
own API; what is the same everywhere (runs, comparisons, stores, the playground) is answered here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from proreus.httpserver.pages import PageReply, PageRequest
from proreus.model.errors import ProreusError
from proreus.version import __version__
from proreus.web import comparisons, model_stores, training_runs
from proreus.web.playground.runs import Crowded, Playground, PlaygroundLimits, PlaygroundRun
from proreus.web.run_folders import Found, Kind, RunFolders
from proreus.web.static_files import static_files

Place = Literal["cluster", "service", "alone"]
_JSON = MappingProxyType(
    {
        "content-type": "application/json",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
    }
)
_QUESTION = frozenset({"world", "scenario", "policy", "seed", "load", "without"})


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class DashboardOptions:
    """What it shows."""

    place: Place
    """Where it stands: in a cluster's API, in a service, or by itself."""
    folders: tuple[Path, ...] = ()
    """Of training runs, comparisons and stores of models, or of folders of them."""
    playground: PlaygroundLimits = field(default_factory=PlaygroundLimits)


class Dashboard:
    """See the module."""

    def __init__(self, options: DashboardOptions) -> None:
        self._options = options
        self._folders = RunFolders(options.folders)
        self._playground = Playground(options.playground)
        self._files = static_files()

    def check(self) -> None:
        """An InputError where a folder is none."""
        self._folders.check()

    def file(self, path: str) -> PageReply | None:
        """The file at that path."""
        return self._files.get(path)

    async def answer(self, request: PageRequest) -> PageReply:
        """What was asked, or why not."""
        try:
            match request.method, request.path.strip("/").split("/"):
                case (("GET" | "HEAD"), ["about"]):
                    content: Any = await asyncio.to_thread(self._about, request)
                case (("GET" | "HEAD"), parts):
                    content = await asyncio.to_thread(self._read, parts)
                case "POST", ["playground"]:
                    content = self._start(request)
                case "POST", parts:
                    content = await asyncio.to_thread(self._write, parts, request)
                case _:
                    raise _Refused(405, f"{request.method} is not allowed here")
        except _Refused as refused:
            return _reply({"message": str(refused)}, refused.status)
        except Crowded as error:
            return _reply({"message": str(error)}, 429)
        except ProreusError as error:
            return _reply({"message": str(error)}, 409)
        return PageReply(content, 200, _JSON) if isinstance(content, bytes) else _reply(content)

    def close(self) -> None:
        """End whatever plays."""
        self._playground.close()

    def _about(self, request: PageRequest) -> dict[str, Any]:
        place = self._options.place
        return {
            "version": __version__,
            "place": place,
            "cluster": place == "cluster",
            "service": place == "service",
            "writes": request.may_write,
            "runs": len(self._folders.all("training")),
            "comparisons": len(self._folders.all("comparison")),
            "models": [found.name for found in self._folders.all("models")],
        }

    def _read(self, parts: list[str]) -> Any:
        match parts:
            case ["runs"]:
                return self._listed("training", training_runs.training_summary)
            case ["runs", name]:
                return training_runs.training_detail(self._one("training", name))
            case ["comparisons"]:
                return self._listed("comparison", comparisons.comparison_summary)
            case ["comparisons", name]:
                return comparisons.comparison_detail(self._one("comparison", name))
            case ["comparisons", name, "report"]:
                return comparisons.report_data(self._one("comparison", name))
            case ["models"]:
                return self._listed("models", model_stores.store_summary)
            case ["playground"]:
                return _told(self._playground.catalogue())
            case ["playground", name]:
                return self._run(name)
            case _:
                raise _Refused(404, "there is no such thing")

    def _listed(self, kind: Kind, told: Callable[[Found], dict[str, Any]]) -> dict[str, Any]:
        return {"items": [told(found) for found in self._folders.all(kind)]}

    def _one(self, kind: Kind, name: str) -> Found:
        found = self._folders.one(kind, name)
        if found is None:
            raise _Refused(404, "there is no such thing")
        return found

    def _start(self, request: PageRequest) -> dict[str, Any]:
        try:
            question = json.loads(request.body)
        except (ValueError, RecursionError):
            raise _Refused(400, "the body is no JSON") from None
        if not isinstance(question, dict) or not question.keys() <= _QUESTION:
            raise _Refused(400, f"a run is {{{', '.join(sorted(_QUESTION))}}}")
        run = self._playground.start({**question, "do": "run"}, request.client)
        return {"id": run.id, "state": run.state}

    def _run(self, name: str) -> Any:
        run = self._playground.find(name)
        if run is None:
            raise _Refused(404, "there is no such run any more")
        return _told(run)

    def _write(self, parts: list[str], request: PageRequest) -> dict[str, Any]:
        if not request.may_write:
            raise _Refused(403, "that needs a token that may change things")
        match parts:
            case ["models", name, model, "rollback"]:
                return model_stores.roll_back(self._one("models", name), model)
            case ["models", name, model, version, "promote"] if version.isdecimal() and len(version) < 19:
                return model_stores.promote(self._one("models", name), model, int(version))
            case _:
                raise _Refused(404, "there is no such thing")


def _told(run: PlaygroundRun) -> bytes | dict[str, Any]:
    if run.state == "done":
        return b'{"state":"done","result":' + run.answer + b"}"
    return {"state": run.state, "why": run.why}


def _reply(content: dict[str, Any], status: int = 200) -> PageReply:
    return PageReply(json.dumps(content, allow_nan=False, default=str).encode(), status, _JSON)
