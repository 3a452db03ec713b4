"""Small local Git server over smart HTTP, with calls to create and change repositories.

It runs in its own threads, and can simulate failures.
"""

import base64
import gzip
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Self, cast
from urllib.parse import urlsplit

from core.errors import Unavailable

_CHUNK = 64 << 10
_CONFIG = "[http]\n\treceivepack = true\n[uploadpack]\n\tallowFilter = true\n"
_AUTHOR = "Towline Demo <demo@towline.invalid>"


@dataclass(frozen=True, slots=True)
class ServedRepository:
    """Bare repository that the server serves at `url`."""

    path: Path
    url: str

    def commit(
        self,
        files: Mapping[str, str | bytes | None],
        message: str = "Change",
        *,
        branch: str = "main",
    ) -> str:
        """Commits files (None deletes a file) to a branch; returns the SHA.

        Other paths stay unchanged. A branch that does not exist starts empty.
        """
        ref = f"refs/heads/{branch}"
        parent = self.resolve(ref)
        stream = b"".join(_import_stream(ref, parent, message, files))
        _git(self.path, "fast-import", "--quiet", "--date-format=now", stdin=stream)
        return self.resolve(ref) or ""

    def resolve(self, ref: str) -> str | None:
        """SHA of a ref, or None."""
        with suppress(OSError):
            return (self.path / ref).read_text().strip()
        output = _git(self.path, "for-each-ref", "--format=%(objectname)", ref)
        return output.decode().strip() or None

    def point(self, ref: str, sha: str) -> None:
        """Forces a ref (`refs/heads/x`, `refs/tags/v1`) to a commit."""
        _git(self.path, "update-ref", ref, sha)

    def delete(self, ref: str) -> None:
        """Deletes a ref."""
        _git(self.path, "update-ref", "-d", ref)


class GitServer:
    """Serves the repositories of a folder at `http://127.0.0.1:<port>/<name>.git`.

    `requests`: last 10,000 requested paths with query; `packs`: those answered with a pack.
    `delay`: seconds to delay each response. `fail`: HTTP status of every response. After `pause`,
    responses wait until `resume`.
    """

    def __init__(self, folder: Path | None = None, *, port: int = 0) -> None:
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="towline-git-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = port
        self.requests: deque[str] = deque(maxlen=10_000)
        self.packs: deque[str] = deque(maxlen=10_000)
        self.delay = 0.0
        self.fail: HTTPStatus | None = None
        self.credentials: dict[str, str] = {}
        self._running = threading.Event()
        self._running.set()
        self._server: _Server | None = None

    def start(self) -> Self:
        """Starts listening; after `stop`, on the same port."""
        self._server = _Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return self

    def stop(self) -> None:
        """Stops listening and closes open connections; keeps the repositories."""
        self.resume()
        if self._server is not None:
            self._server.shutdown()
            self._server.close_connections()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        """Stops, and deletes the repositories unless a folder was given."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_repository(
        self, name: str, *, username: str | None = None, password: str | None = None
    ) -> ServedRepository:
        """Creates an empty repository, or opens an existing one; private with a password."""
        path = self.folder / f"{name}.git"
        if not path.is_dir():
            _git(self.folder, "init", "--quiet", "--bare", "--initial-branch=main", str(path))
            with (path / "config").open("a") as config:
                config.write(_CONFIG)
        if password is not None:
            pair = f"{username or 'git'}:{password}".encode()
            self.credentials[f"{name}.git"] = "Basic " + base64.b64encode(pair).decode()
        return ServedRepository(path, f"http://127.0.0.1:{self.port}/{name}.git")

    def pause(self) -> None:
        """Makes every request wait, with its connection open."""
        self._running.clear()

    def resume(self) -> None:
        """Ends a pause."""
        self._running.set()

    def admit(self, path: str, authorization: str | None) -> HTTPStatus:
        """Records a request, delays it, and returns the status of its response."""
        self.requests.append(path)
        self._running.wait()
        time.sleep(self.delay)
        repository = path.lstrip("/").partition(".git")[0] + ".git"
        if self.credentials.get(repository, authorization) != authorization:
            return HTTPStatus.UNAUTHORIZED
        return self.fail or HTTPStatus.OK


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], owner: GitServer) -> None:
        super().__init__(address, _Handler)
        self.owner = owner
        self.open: set[socket.socket] = set()

    def close_connections(self) -> None:
        """Closes the connections that clients keep open."""
        for connection in tuple(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores clients that disconnect in the middle of a request."""


class _Handler(BaseHTTPRequestHandler):
    """Passes each request to `git http-backend` over CGI (RFC 3875)."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._listener = cast(_Server, self.server)
        self._listener.open.add(self.connection)

    def finish(self) -> None:
        self._listener.open.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing: the server's owner records requests."""

    def do_GET(self) -> None:
        """Serves the advertisement of refs or capabilities."""
        self._serve()

    def do_POST(self) -> None:
        """Serves a fetch or a push."""
        self._serve()

    def _serve(self) -> None:
        status = self._listener.owner.admit(self.path, self.headers.get("Authorization"))
        if status is not HTTPStatus.OK:
            self._refuse(status)
            return
        with tempfile.TemporaryFile() as body:
            for chunk in self._body_chunks():
                body.write(chunk)
            body.seek(0)
            if is_fetch(body.read(), self.headers.get("Content-Encoding", "")):
                self._listener.owner.packs.append(self.path)
            body.seek(0)
            self._run_backend(body)

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        if self.command == "POST":
            self.send_header("Connection", "close")
        self.end_headers()

    def _body_chunks(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _run_backend(self, body: IO[bytes]) -> None:
        with subprocess.Popen(
            ["git", "http-backend"],
            stdin=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment() | self._variables(),
        ) as backend:
            if backend.stdout is not None:
                self._send_response(backend.stdout)

    def _variables(self) -> dict[str, str]:
        url = urlsplit(self.path)
        return {
            "GIT_PROJECT_ROOT": str(self._listener.owner.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": url.path,
            "QUERY_STRING": url.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": self.client_address[0],
        }

    def _send_response(self, output: IO[bytes]) -> None:
        headers = list(_cgi_headers(output))
        status = next((value for name, value in headers if name == "Status"), "200 OK")
        self.send_response(int(status.split()[0]))
        for name, value in headers:
            if name not in ("Status", "Content-Length"):
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while chunk := output.read(_CHUNK):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")


def is_fetch(body: bytes, encoding: str) -> bool:
    """True for the last request of a fetch (protocol version 2), which is answered with a pack."""
    text = gzip.decompress(body) if encoding == "gzip" else body
    return b"command=fetch" in text[:64] and b"0009done\n" in text[-64:]


def _cgi_headers(output: IO[bytes]) -> Iterator[tuple[str, str]]:
    while line := output.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        yield name, value.strip()


def _import_stream(
    ref: str, parent: str | None, message: str, files: Mapping[str, str | bytes | None]
) -> Iterator[bytes]:
    """Formats one commit as a stream for `git fast-import`."""
    yield f"commit {ref}\ncommitter {_AUTHOR} now\n".encode()
    yield _data_command(message.encode())
    if parent is not None:
        yield f"from {parent}\n".encode()
    for path, content in files.items():
        if content is None:
            yield f"D {_quote_path(path)}\n".encode()
            continue
        yield f"M 100644 inline {_quote_path(path)}\n".encode()
        yield _data_command(content.encode() if isinstance(content, str) else content)


def _data_command(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _quote_path(path: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        path = path.replace(plain, escaped)
    return f'"{path}"'


def _git(folder: Path, *args: str, stdin: bytes = b"") -> bytes:
    result = subprocess.run(
        ["git", *args],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        env=_environment(),
    )
    if result.returncode:
        raise Unavailable(f"git {args[0]} in {folder}: {result.stderr.decode().strip()}")
    return result.stdout


def _environment() -> dict[str, str]:
    """Environment without the user's Git configuration."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LC_ALL": "C",
    }
