"""What may be a name, a label, an annotation: the rules of Kubernetes, in its words.

Each rule returns what is wrong, or "" where nothing is.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_ENVIRONMENT_NAME = re.compile(r"[ -<>-~]+")
_PORT_NAME = re.compile(r"[-a-z0-9]+")

_LONGEST_LABEL, _LONGEST_SUBDOMAIN, _LONGEST_NAME, _LONGEST_PORT_NAME = 63, 253, 63, 15
_TOO_LONG = "must be no more than {} {}"
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_DNS_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_CONFIG_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


@lru_cache(maxsize=4096)
def dns_label_problem(text: str) -> str:
    """Of the name of a namespace, a container, a volume."""
    if len(text) > _LONGEST_LABEL:
        return _TOO_LONG.format(_LONGEST_LABEL, "characters")
    return "" if _DNS_LABEL.fullmatch(text) else _LABEL_WORDS


def dns_subdomain_problem(text: str) -> str:
    """Of the name of a pod, a node, and most other objects."""
    if len(text) > _LONGEST_SUBDOMAIN:
        return _TOO_LONG.format(_LONGEST_SUBDOMAIN, "characters")
    return "" if _DNS_SUBDOMAIN.fullmatch(text) else _SUBDOMAIN_WORDS


@lru_cache(maxsize=1024)
def dns_1035_problem(text: str) -> str:
    """Of the name of a service."""
    if len(text) > _LONGEST_LABEL:
        return _TOO_LONG.format(_LONGEST_LABEL, "characters")
    return "" if _DNS_1035.fullmatch(text) else _DNS_1035_WORDS


@lru_cache(maxsize=4096)
def label_key_problem(text: str) -> str:
    """Of the key of a label, an annotation, a taint, a resource: `name`, or `prefix/name`."""
    prefix, slash, name = text.partition("/")
    if slash:
        if not prefix:
            return "prefix part must be non-empty"
        problem = dns_subdomain_problem(prefix)
        if problem:
            return f"prefix part {problem}"
    else:
        name = text
    if not name:
        return "name part must be non-empty"
    if len(name) > _LONGEST_NAME:
        return "name part " + _TOO_LONG.format(_LONGEST_NAME, "characters")
    return "" if _QUALIFIED.fullmatch(name) else _QUALIFIED_WORDS


@lru_cache(maxsize=4096)
def label_value_problem(text: str) -> str:
    """Of the value of a label or a taint."""
    if len(text) > _LONGEST_LABEL:
        return _TOO_LONG.format(_LONGEST_LABEL, "characters")
    return "" if _VALUE.fullmatch(text) else _VALUE_WORDS


def config_key_problem(text: str) -> str:
    """Of a key of a ConfigMap or a Secret."""
    if len(text) > _LONGEST_SUBDOMAIN:
        return _TOO_LONG.format(_LONGEST_SUBDOMAIN, "characters")
    if text in (".", "..") or text.startswith(".."):
        return "must not be '.', '..', or start with '..'"
    return "" if _CONFIG_KEY.fullmatch(text) else _CONFIG_KEY_WORDS


def environment_name_problem(text: str) -> str:
    """Of the name of an environment variable."""
    if _ENVIRONMENT_NAME.fullmatch(text):
        return ""
    return "a valid environment variable name must consist only of printable ASCII characters other than '='"


def port_name_problem(text: str) -> str:
    """Of the name of a container's port."""
    if len(text) > _LONGEST_PORT_NAME:
        return _TOO_LONG.format(_LONGEST_PORT_NAME, "characters")
    if not _PORT_NAME.fullmatch(text):
        return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not any(sign.isalpha() for sign in text):
        return "must contain at least one letter (a-z)"
    if "--" in text:
        return "must not contain consecutive hyphens"
    if text.startswith("-") or text.endswith("-"):
        return "must not begin or end with a hyphen"
    return ""
