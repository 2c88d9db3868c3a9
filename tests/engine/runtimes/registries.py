"""A registry of images on this machine, as far as whoever pulls from it needs one."""

from __future__ import annotations

import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@contextmanager
def serving(archive: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """An address that serves the archive's image under any name; and its blobs, which may be changed."""
    blobs: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        content = {name: file.read() for name, file in files.items() if file is not None}
    blobs.update({name.replace("blobs/sha256/", "sha256:"): data for name, data in content.items()})
    (described,) = json.loads(content["index.json"])["manifests"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            what = self.path.partition("?")[0].rpartition("/")
            digest = described["digest"] if "/manifests" in what[0] else what[2]
            data = b"{}" if self.path == "/v2/" else blobs.get(digest)
            if data is None:
                self.send_error(404)
                return
            self.send_response(200)
            if digest == described["digest"]:
                self.send_header("Content-Type", described["mediaType"])
                self.send_header("Docker-Content-Digest", digest)
            else:
                self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"localhost:{server.server_address[1]}", blobs
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
