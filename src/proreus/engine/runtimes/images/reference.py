"""How images are called: what is a name at all, a name in full, and by digest."""

from __future__ import annotations

import re

from proreus.model.errors import UsageError

_DOMAIN_PART = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)"
_DOMAIN = rf"{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG = r"[\w][\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"((?:{_DOMAIN}/)?{_PATH_PART}(?:/{_PATH_PART})*)(?::{_TAG})?(?:@{_DIGEST})?", re.ASCII
)
_LONGEST_NAME = 255


def is_reference(name: str) -> bool:
    """Whether an image can be called so, by the grammar of registries.

    >>> is_reference("busybox"), is_reference("localhost:5000/team/app:1")
    (True, True)
    >>> is_reference("busybox@sha256:" + 64 * "0")
    True
    >>> is_reference("Busybox"), is_reference("a b"), is_reference("a:"), is_reference("https://a/b")
    (False, False, False, False)
    """
    match = _REFERENCE.fullmatch(name)
    return match is not None and len(match[1]) <= _LONGEST_NAME


def check_reference(name: str) -> None:
    """Raise `UsageError` where no image can be called so."""
    if not is_reference(name):
        raise UsageError(f"name: {name[:80]!r} is no name of an image; one is like team/app:1, in lower case")


def full_name(name: str) -> str:
    """As registries write it in full.

    >>> full_name("busybox"), full_name("team/app:1"), full_name("localhost/x")
    ('docker.io/library/busybox:latest', 'docker.io/team/app:1', 'localhost/x:latest')
    """
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not ("." in first or ":" in first or first == "localhost"):
        name = f"docker.io/{name}"
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


def digested(name: str, digest: str) -> str:
    """The image of this digest in the repository of that name.

    >>> digested("busybox:1", "sha256:00")
    'docker.io/library/busybox@sha256:00'
    """
    repository, _, last = full_name(name.partition("@")[0]).rpartition("/")
    return f"{repository}/{last.partition(':')[0]}@{digest}"
