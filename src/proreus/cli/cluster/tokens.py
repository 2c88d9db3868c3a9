"""Tokens of a cluster: the one that it makes for itself, and which of a file the kubeconfig gets."""

from __future__ import annotations

import secrets
from pathlib import Path

from proreus.cli.cluster.place import write_privately

_BYTES = 32


def own_tokens(folder: Path) -> Path:
    """The file with the cluster's own token, of an admin, made where it is missing."""
    path = folder / "tokens"
    if not path.exists():
        written = (
            "# Made by `proreus up`: token,name,role. Where this file is missing, another is made.\n"
            f"{secrets.token_urlsafe(_BYTES)},owner,admin\n"
        )
        write_privately(path, written.encode())
    return path


def admin_token(path: Path | None) -> str:
    """The first token of an admin, for the kubeconfig; the file has been checked."""
    if path is None:
        return ""
    lines = (line.split(",") for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    return next((parts[0].strip() for parts in lines if len(parts) == 3 and parts[2].strip() == "admin"), "")
