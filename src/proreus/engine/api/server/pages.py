"""A dashboard behind the door of the API: its files for anybody, its answers for whoever has a token."""

from __future__ import annotations

from proreus.engine.api.server.authorization import Action, allowed, check
from proreus.engine.api.server.middleware import Application, Endpoint
from proreus.engine.api.server.reply import Answer, Reply
from proreus.engine.api.server.request import ApiRequest, Receive, Scope, Send
from proreus.engine.api.server.status import MethodNotAllowed
from proreus.engine.objects.errors import TooLarge
from proreus.httpserver.pages import ANSWERS, LONGEST_BODY, PageReply, PageRequest, Pages

_READS = ("GET", "HEAD")


def page_files(pages: Pages, elsewhere: Application) -> Application:
    """The files as an ASGI application; what is none of them is for `elsewhere`."""

    async def sent(scope: Scope, receive: Receive, send: Send) -> None:
        found = pages.file(scope["path"]) if scope["type"] == "http" else None
        if found is None or scope["method"] not in _READS:
            await elsewhere(scope, receive, send)
            return
        headers = [(name.encode(), value.encode()) for name, value in found.headers.items()]
        headers.append((b"content-length", b"%d" % len(found.body)))
        await send({"type": "http.response.start", "status": found.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else found.body
        await send({"type": "http.response.body", "body": body})

    return sent


def page_answers(pages: Pages) -> Endpoint:
    """The answers, behind the gate. Whoever may read may also have something simulated, which changes nothing
    of the cluster; `may_write` is an admin's."""

    async def answer(asked: ApiRequest) -> Answer:
        if asked.method not in (*_READS, "POST"):
            raise MethodNotAllowed(f"{asked.method} is not allowed here")
        path = asked.path.decode("latin-1")
        asked.doing = "get" if asked.method in _READS else "create"
        check(asked.identity, Action("get", path))
        body = b""
        if asked.method == "POST":
            if asked.length > LONGEST_BODY:
                raise TooLarge(f"Request entity too large: limit is {LONGEST_BODY} bytes")
            body = await asked.body()
        may_write = allowed(asked.identity.role, Action("update", path))
        request = PageRequest(asked.method, path.removeprefix(ANSWERS), asked.client, body, may_write)
        return _reply(await pages.answer(request))

    return answer


def _reply(made: PageReply) -> Reply:
    media_type = made.headers.get("content-type", "application/json").encode()
    others = tuple(
        (name.encode(), value.encode()) for name, value in made.headers.items() if name != "content-type"
    )
    return Reply(made.body, made.status, media_type, others)
