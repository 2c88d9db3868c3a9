"""Images as people read of them: a name and a size."""

from __future__ import annotations

from collections.abc import Sequence


def image_name(names: Sequence[str]) -> str:
    """By name where it has one, else by digest."""
    named = [name for name in names if "sha256:" not in name]
    return ", ".join(named or names[:1])


def image_size(count: int) -> str:
    """In the largest unit of which there is one.

    >>> image_size(512), image_size(1_992_294)
    ('512 B', '1.9 MiB')
    """
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
