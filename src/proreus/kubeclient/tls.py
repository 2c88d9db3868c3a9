"""The TLS side of a connection: whom we believe, and what we show."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from proreus.kubeclient.config import ClusterConfig
from proreus.model.errors import InputError


class ContextSource:
    """A context for each certificate that is shown; a plugin's may change with time."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._shown: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext:
        """As it is now."""
        shown = await self._config.credentials.certificate() or self._config.certificate
        if self._context is None or shown != self._shown:
            self._context, self._shown = make_context(self._config, shown), shown
        return self._context


def make_context(config: ClusterConfig, shown: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    """It verifies the server's certificate and name, unless the configuration says otherwise."""
    try:
        context = ssl.create_default_context(cadata=config.authority.decode("latin-1") or None)
    except ssl.SSLError as error:
        raise InputError(
            "there is no certificate in PEM form in it", file=config.source, field="certificate-authority"
        ) from error
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Certificates of clusters, and of the authorities that clusters make for themselves, are seldom strict.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if shown is not None:
        _show(context, shown, config.source)
    return context


def _show(context: ssl.SSLContext, shown: tuple[bytes, bytes], source: str) -> None:
    """The ssl module reads files alone: one that nobody else may read, for as long as that takes."""
    asked = False

    def password() -> str:
        nonlocal asked
        asked = True
        return ""

    handle, name = tempfile.mkstemp(prefix="proreus-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(b"\n".join(shown))
        context.load_cert_chain(name, password=password)
    except (ssl.SSLError, ValueError) as error:
        why = (
            "the key has a password, and nobody is there to type it"
            if asked
            else "certificate and key do not belong together, or are not in PEM form"
        )
        raise InputError(why, file=source, field="client-certificate") from error
    finally:
        Path(name).unlink(missing_ok=True)
