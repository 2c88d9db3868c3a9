"""What a node does for containers beside running them: their hooks, and the filter of their system calls."""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.validation.error_list import Problems

_Map = dict[str, Any]
_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")


def check_lives(spec: _Map, field: str, problems: Problems) -> None:
    """Of a pod and all its containers."""
    _check_profile(spec.get("securityContext") or {}, f"{field}.securityContext", problems)
    grace = int(spec["terminationGracePeriodSeconds"])
    for key in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(key) or ()):
            here = f"{field}.{key}[{place}]"
            _check_profile(container.get("securityContext") or {}, f"{here}.securityContext", problems)
            hooks = container.get("lifecycle")
            if hooks is None:
                continue
            if key == "initContainers" and container.get("restartPolicy") != "Always":
                message = "may not be set for init containers without restartPolicy=Always"
                problems.forbidden(f"{here}.lifecycle", message)
            for name in ("postStart", "preStop"):
                if hooks.get(name) is not None:
                    _check_hook(hooks[name], f"{here}.lifecycle.{name}", grace, problems)


def defaulted_lifecycle(hooks: _Map) -> _Map:
    """With what Kubernetes fills in."""
    return {
        name: _defaulted_handler(hook) if isinstance(hook, dict) else hook for name, hook in hooks.items()
    }


def _defaulted_handler(handler: _Map) -> _Map:
    if not handler.get("httpGet"):
        return handler
    return {**handler, "httpGet": {"path": "/", "scheme": "HTTP", **handler["httpGet"]}}


def _check_hook(handler: _Map, here: str, grace: int, problems: Problems) -> None:
    stated = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not stated:
        problems.required(here, "must specify a handler type")
    for kind in stated[1:]:
        problems.forbidden(f"{here}.{kind}", "may not specify more than 1 handler type")
    if "exec" in stated and not handler["exec"].get("command"):
        problems.required(f"{here}.exec.command")
    if "sleep" in stated:
        seconds = handler["sleep"].get("seconds", 0)
        if not 0 <= seconds <= grace:
            message = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            problems.invalid(f"{here}.sleep", seconds, message)


def _check_profile(context: _Map, here: str, problems: Problems) -> None:
    profile = context.get("seccompProfile")
    if profile is None:
        return
    here = f"{here}.seccompProfile"
    kind = profile.get("type")
    if not kind:
        problems.required(f"{here}.type", "type is required when seccompProfile is set")
        return
    problems.one_of(f"{here}.type", kind, _PROFILES)
    own = profile.get("localhostProfile")
    if kind == "Localhost" and not own:
        problems.required(f"{here}.localhostProfile", "must be set when seccomp type is Localhost")
    elif kind != "Localhost" and own:
        message = "can only be set when seccomp type is Localhost"
        problems.invalid(f"{here}.localhostProfile", own, message)
