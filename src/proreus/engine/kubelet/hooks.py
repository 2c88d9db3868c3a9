"""Lifecycle hooks of a container: what it has done right after its start, and before it is asked to end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from proreus.engine.kubelet.handlers import Reached, http_status, run_exec
from proreus.engine.runtimes.protocol import RuntimeRefused
from proreus.model.errors import ProreusError

_NO_LIMIT = 7 * 86400.0
"""Seconds: `preStop` is bounded by the pod's grace alone, and `postStart` by nothing."""


class HookFailed(ProreusError):
    """A hook did not go well; says how."""


def hook_of(container: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The handler of `postStart` or `preStop`, where the container has it."""
    hook: Mapping[str, Any] | None = (container.get("lifecycle") or {}).get(name)
    return hook or None


async def run_hook(handler: Mapping[str, Any], reached: Reached) -> None:
    """Until it is done; raises `HookFailed`.

    As with a kubelet, whatever a server answers to `httpGet` does, and `tcpSocket` is no hook: it fails.
    """
    try:
        if "exec" in handler:
            code, message = await run_exec(reached, handler["exec"], _NO_LIMIT)
            if code != 0:
                raise HookFailed(f"command terminated with exit code {code}: {message}".rstrip(": \n"))
        elif handler.get("httpGet"):
            await http_status(reached, handler["httpGet"])
        elif "sleep" in handler:
            await asyncio.sleep(float((handler["sleep"] or {}).get("seconds") or 0))
        else:
            raise HookFailed(f"invalid handler: {', '.join(sorted(handler))}")
    except (OSError, RuntimeRefused, ValueError) as error:
        raise HookFailed(str(error)) from error
