"""The built web console: its files, and its page for every address that a browser navigates to."""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

_INDEX = "index.html"
_HASHED_PREFIX = "assets/"
_COMPRESSIBLE = frozenset({".html", ".js", ".css", ".svg", ".json"})
_PROGRAM_PATHS = ("/gql", "/k8s/", "/oauth/", "/ext/", "/webhooks/", "/assets/")
_MISSING_CONSOLE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Towline</title>
<h1>Towline is running</h1>
<p>This installation was built without its web console. In a checkout, <code>make console</code>
builds it; that needs Node.js 20 or newer with npm. Then start again.</p>
<p>The API answers at <code>/gql</code>, clusters at <code>/k8s/clusters/&lt;handle&gt;/</code>.
Sign in with <code>towline login</code>.</p></html>
"""


@dataclass(frozen=True)
class _ConsoleFile:
    """A file of the console, kept in memory; compressed at the first request."""

    name: str
    data: bytes

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.data, mtime=0)

    @property
    def headers(self) -> dict[str, str]:
        is_hashed = self.name.startswith(_HASHED_PREFIX)
        age = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
        return {"cache-control": age, "etag": self.tag, "vary": "accept-encoding"}

    def respond(self, request: Request) -> Response:
        """Returns the file, or 304 if it is unchanged."""
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=self.headers)
        media = mimetypes.guess_type(self.name)[0] or "application/octet-stream"
        takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
        if takes_gzip and Path(self.name).suffix in _COMPRESSIBLE:
            headers = {**self.headers, "content-encoding": "gzip"}
            return Response(self.compressed, headers=headers, media_type=media)
        return Response(self.data, headers=self.headers, media_type=media)


class Console:
    """ASGI application that answers GET and HEAD requests without another route.

    `folder` holds the built files. Without it, `/` explains how to build them. Other page addresses
    return the console's page, which routes on its own; requests of programs return 404.
    """

    def __init__(self, folder: Path | None) -> None:
        self._files = _read_files(folder) if folder is not None else {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": ""})
            return
        request = Request(scope, receive)
        await self._respond(request)(scope, receive, send)

    def _respond(self, request: Request) -> Response:
        path = request.url.path
        is_read = request.method in ("GET", "HEAD")
        file = self._files.get(path.removeprefix("/"))
        if is_read and file is not None:
            return file.respond(request)
        if is_read and (path == "/" or _is_page(request)):
            index = self._files.get(_INDEX)
            return index.respond(request) if index is not None else _missing_console_page(path)
        return PlainTextResponse("Not Found", 404)


def _is_page(request: Request) -> bool:
    """Returns whether a person navigates there with a browser."""
    wants_page = "text/html" in request.headers.get("accept", "")
    return wants_page and not request.url.path.startswith(_PROGRAM_PATHS)


def _missing_console_page(path: str) -> Response:
    return HTMLResponse(
        _MISSING_CONSOLE, 200 if path == "/" else 404, {"cache-control": "no-store"}
    )


def _read_files(folder: Path) -> dict[str, _ConsoleFile]:
    """Reads every file below a folder, by name: nothing else can ever be requested."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return {name: _ConsoleFile(name, (folder / name).read_bytes()) for name in names}
