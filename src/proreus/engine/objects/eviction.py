"""A pod is asked to go: deleted if its disruption budget allows one more disruption now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proreus.engine.objects.kinds import POD
from proreus.engine.objects.wants import Terms

if TYPE_CHECKING:
    from proreus.engine.objects.registry import Registry


async def evicted(registry: Registry, namespace: str, name: str, terms: Terms, *, dry_run: bool) -> None:
    """The pod is deleted."""
    await registry.delete(POD, namespace, name, uid=terms.uid, grace=terms.grace, dry_run=dry_run)
