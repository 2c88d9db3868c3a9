"""Tokens of a cluster: those that it makes for itself, and which of a file the kubeconfig gets."""

from __future__ import annotations

import secrets
from pathlib import Path

from proreus.cli.cluster.state_dir import write_privately

_BYTES = 32
_OTHERS = 0o077
_HEAD = "# Made by `proreus up`: token,name,role. Where this file is missing, another is made.\n"
_OWN = {"viewer": "page", "admin": "owner"}
"""By role: whose token it is."""


def own_tokens(folder: Path) -> Path:
    """The file with the cluster's own tokens, made where it is missing: an admin's for the kubeconfig, and
    a viewer's for the status page, whose address is shown and copied."""
    path = folder / "tokens"
    if path.exists() and path.stat().st_mode & _OTHERS:
        return path  # whoever reads them refuses: others may know them by now
    written = path.read_text() if path.exists() else _HEAD
    missing = [role for role in _OWN if not first_token(path, role)]
    if missing:
        lines = [f"{secrets.token_urlsafe(_BYTES)},{_OWN[role]},{role}\n" for role in missing]
        write_privately(path, "".join((written.rstrip("\n") + "\n", *lines)).encode())
    return path


def first_token(path: Path, role: str) -> str:
    """The first of that role; "" where there is none. The file is checked where it is read."""
    text = path.read_text() if path.exists() else ""
    lines = (line.split(",") for line in text.splitlines() if not line.lstrip().startswith("#"))
    return next((parts[0].strip() for parts in lines if len(parts) == 3 and parts[2].strip() == role), "")
