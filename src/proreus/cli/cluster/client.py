"""Asks a Kubernetes API over HTTP; what it refuses is an error of one line in its own words. Needs httpx."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from proreus.cli.cluster.messages import (
    ANSWER_SECONDS,
    JSON,
    ApiAnswer,
    ApiRefused,
    Body,
    Unreachable,
    warnings_in,
)
from proreus.cli.cluster.state_dir import Address
from proreus.httpserver.tls import check_authority, check_credentials
from proreus.model.errors import InputError

_CONNECT_SECONDS = 5.0
_LONGEST_LINE = 64 << 20


class Client:
    """Blocking calls; one connection is kept between them."""

    def __init__(self, address: Address) -> None:
        self.address = address
        headers = {"authorization": f"Bearer {address.token}"} if address.token else {}
        try:
            self._http = httpx.Client(
                base_url=address.server,
                headers=headers,
                verify=trust(address),
                trust_env=False,  # the cluster is asked where it is, never through a proxy
            )
        except httpx.InvalidURL as error:
            raise InputError(f"{address.server!r} is no address: {error}") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, str] | None = None, *, accept: str = JSON) -> Any:
        """What stands there."""
        return self.ask("GET", path, params, accept=accept).content

    def ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Body | None = None,
        accept: str = JSON,
    ) -> ApiAnswer:
        """One call; an answer that is no JSON is handed out as text."""
        headers = {"accept": accept}
        if body is not None:
            headers["content-type"] = body.media_type
        with self._heard():
            answer = self._http.request(
                method,
                path,
                params=dict(params or {}),
                content=None if body is None else body.content,
                headers=headers,
                timeout=httpx.Timeout(
                    ANSWER_SECONDS if body is None else body.answer_seconds, connect=_CONNECT_SECONDS
                ),
            )
        if answer.status_code >= 400:
            raise refused(answer.status_code, answer.text)
        if answer.headers.get("content-type", "").startswith(JSON):
            content = answer.json()
        else:
            content = answer.text
        return ApiAnswer(answer.status_code, content, warnings_in(answer.headers.get_list("warning")))

    @contextmanager
    def stream(
        self, path: str, params: Mapping[str, str] | None = None, *, accept: str = JSON
    ) -> Iterator[httpx.Response]:
        """An answer that is read as it comes, for as long as it takes."""
        with (
            self._heard(),
            self._http.stream(
                "GET",
                path,
                params=dict(params or {}),
                headers={"accept": accept},
                timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            ) as answer,
        ):
            if answer.status_code >= 400:
                answer.read()
                raise refused(answer.status_code, answer.text)
            yield answer

    def watch(self, path: str, params: Mapping[str, str], *, accept: str = JSON) -> Iterator[dict[str, Any]]:
        """The events of a watch, until it ends."""
        with self.stream(path, {**params, "watch": "true"}, accept=accept) as answer:
            for line in _lines(answer):
                event: dict[str, Any] = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiRefused(
                        status.get("message", "the watch failed"),
                        int(status.get("code", 500)),
                        status.get("reason", ""),
                    )
                yield event

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Errors of the connection, in one line."""
        try:
            yield
        except httpx.TimeoutException:
            raise Unreachable(f"{self.address.server} does not answer in time") from None
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            raise Unreachable(
                f"{self.address.server} ended the connection: {error or 'it has stopped'}"
            ) from None
        except httpx.TransportError as error:
            raise Unreachable(_not_heard(self.address.server, error)) from None


def trust(address: Address) -> ssl.SSLContext | bool:
    """Which certificates of the server's are believed; False where it needs none."""
    if not address.server.startswith("https:"):
        return False  # there is no TLS and so nothing to verify
    if address.authority:
        check_authority(Path(address.authority))
    try:
        context = ssl.create_default_context(
            cafile=address.authority or None, cadata=address.authority_data or None
        )
    except ssl.SSLError as error:
        raise InputError(
            "there is no certificate in PEM form in it", field="certificate-authority-data"
        ) from error
    if address.client is not None:
        certificate, key = map(Path, address.client)
        check_credentials(certificate, key)
        context.load_cert_chain(certificate, key)
    return context


def _not_heard(server: str, error: httpx.TransportError) -> str:
    """Why there is no connection, and what helps."""
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return (
                    f"{server} shows a certificate that is not trusted here: {cause.verify_message}; "
                    "another cluster may answer there: --dir names the folder of the one that you mean, "
                    "--ca FILE the authority to trust"
                )
            case ssl.SSLError():
                return f"{server} does not speak TLS as it should: {cause.reason}; is it an http:// address?"
            case _:
                cause = cause.__cause__ or cause.__context__
    return f"no cluster answers at {server}: {error}; is `proreus up` running?"


def _lines(answer: httpx.Response) -> Iterator[bytes]:
    """The lines of an answer, whatever the text in them holds."""
    held = b""
    for piece in answer.iter_bytes():
        held += piece
        *whole, held = held.split(b"\n")
        yield from (line for line in whole if line.strip())
        if len(held) > _LONGEST_LINE:
            raise Unreachable(f"the cluster sent a line of more than {_LONGEST_LINE >> 20} MiB")


def refused(code: int, text: str) -> ApiRefused:
    """What an answer of this code says."""
    try:
        status = json.loads(text)
        message, reason = str(status["message"]), str(status.get("reason", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        message, reason = f"the cluster answered {code}: {text[:200]}", ""
    if code == 401:
        message = f"{message} (give the token with --token or PROREUS_TOKEN)"
    return ApiRefused(message, code, reason)
