"""The live status page of a cluster: one HTML file that loads nothing, and what a browser may do with it."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from types import MappingProxyType


@cache
def status_page() -> bytes:
    """The page; it asks `v1/events` beside it for everything that it shows."""
    return (files(__package__) / "status.html").read_bytes()


@cache
def page_headers() -> MappingProxyType[str, str]:
    """What goes with it: only its own script and style run, and it talks to nobody but where it came from."""
    page = status_page()
    script, style = (_digest(page, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return MappingProxyType(
        {
            "content-type": "text/html; charset=utf-8",
            "content-security-policy": policy,
            "cache-control": "no-store",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
        }
    )


def _digest(page: bytes, tag: str) -> str:
    """How the policy names the one element of that kind."""
    match = re.search(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.DOTALL)
    assert match is not None, f"the page has one {tag}"
    return f"'sha256-{base64.b64encode(hashlib.sha256(match[1]).digest()).decode()}'"
