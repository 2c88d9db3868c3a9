"""The files of the dashboard, with what a browser may do with them.

Nothing comes from elsewhere, and nothing that stands in a page runs but these files: no script or style in
markup, no markup made from text (Trusted Types), no frames, no forms that lead away.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from proreus.httpserver.pages import PageReply

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_TYPES = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
_SHARED = ("cividis.js", "player.js", "player.css")
"""Of the report: there is one player."""


@cache
def static_files() -> MappingProxyType[str, PageReply]:
    """By the path that the browser asks for."""
    own = dict(_below(files("proreus.web") / "static", "/static/"))
    report = files("proreus.compare.report") / "assets"
    shared = {f"/static/{name}": report / name for name in _SHARED}
    found = {path: _reply(file) for path, file in {**own, **shared}.items()}
    found["/"] = found.pop("/static/index.html")
    return MappingProxyType(found)


def _below(folder: Traversable, path: str) -> list[tuple[str, Traversable]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _below(entry, f"{path}{entry.name}/")
        elif entry.name[entry.name.rfind(".") :] in _TYPES:
            found.append((path + entry.name, entry))
    return found


def _reply(file: Traversable) -> PageReply:
    headers = {
        "content-type": _TYPES[file.name[file.name.rfind(".") :]],
        "content-security-policy": POLICY,
        "cache-control": "no-cache, no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }
    return PageReply(file.read_bytes(), 200, MappingProxyType(headers))
