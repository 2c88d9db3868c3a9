"""This machine as others know it: its name and its address."""

from __future__ import annotations

import re
import socket

_SOMEWHERE = (("192.0.2.1", 9), ("2001:db8::1", 9))
"""Addresses of nobody, kept for documentation: the way to them is the way out of this machine."""


def machine_name() -> str:
    """The host's name, as nodes are named: small letters, digits, - and ."""
    return re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.") or "node"


def machine_address() -> str:
    """The address under which others reach this machine; that of loopback where nobody can.

    The system is asked which way it would send; nothing is sent.
    """
    for family, nobody in zip((socket.AF_INET, socket.AF_INET6), _SOMEWHERE, strict=True):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asking:
                asking.connect(nobody)
                address: str = asking.getsockname()[0]
                return address
        except OSError:  # there is no way out by this family
            continue
    return "127.0.0.1"
