"""What clients are told of fields that a kind does not have (`fieldValidation`)."""

from __future__ import annotations

from typing import Any

from proreus.engine.api.server.reply import Header
from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.schema.structure import Shaped, shaped

_MOST = 16
"""So many are told of; one typing error is enough to look again."""


def field_warnings(kind: Kind, obj: dict[str, Any], validation: str) -> tuple[Header, ...]:
    """What is said of fields that the kind does not have: warnings, nothing, or a refusal.

    validation: `Warn` (where "" is given too, as in Kubernetes), `Ignore`, `Strict`.
    """
    return () if validation == "Ignore" else unknown_warnings(kind, shaped(kind, obj), validation)


def unknown_warnings(kind: Kind, obj: Shaped, validation: str) -> tuple[Header, ...]:
    """The same of an object whose structure is known already."""
    match validation:
        case "Ignore":
            return ()
        case "" | "Warn" | "Strict":
            unknown = obj.unknown[:_MOST]
        case other:
            raise BadRequest(f'fieldValidation: Unsupported value: "{other[:80]}": Ignore, Strict, Warn')
    messages = [f'unknown field "{path[:200]}"' for path in unknown]
    if messages and validation == "Strict":
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {', '.join(messages)}"
        )
    return tuple(warning(text) for text in messages)


def warning(text: str) -> Header:
    """What clients print beside the answer."""
    return b"warning", b'299 - "%s"' % _quoted(text)


def _quoted(text: str) -> bytes:
    printable = "".join(one if " " <= one <= "~" else "?" for one in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"').encode()
