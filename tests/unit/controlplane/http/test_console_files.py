"""The control plane serves the built console."""

import gzip
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from starlette.types import ASGIApp, Message

from controlplane.http.app import make_app

PAGE = {"accept": "text/html,application/xhtml+xml"}
INDEX = '<!doctype html><div id="root"></div>'


async def _ready() -> None:
    return None


async def _graphql(*_: object) -> None:
    raise AssertionError("nothing here asks for GraphQL")


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """Asks an ASGI application without a socket."""

    def __init__(self, folder: Path | None) -> None:
        self._app: ASGIApp = make_app(_graphql, _ready, (), folder)

    async def get(
        self, url: str, headers: dict[str, str] | None = None, how: str = "GET"
    ) -> Answer:
        parts = urlsplit(url)
        scope = {
            "type": "http",
            "method": how,
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "scheme": "http",
            "server": ("testserver", 80),
            "headers": [(k.encode(), v.encode()) for k, v in (headers or {}).items()],
        }
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        response_headers = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return Answer(
            sent[0]["status"], response_headers, b"".join(one["body"] for one in sent[1:])
        )


@pytest.fixture
def built(tmp_path: Path) -> Client:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "main-abc123.js").write_text("export {};" * 100)
    (tmp_path / "admin.token").write_text("secret")
    return Client(folder)


@pytest.mark.parametrize("path", ["/", "/services/1?tab=history", "/clusters/dev", "/no/such/page"])
async def test_every_address_of_a_page_gets_the_console(built: Client, path: str) -> None:
    answer = await built.get(path, headers=PAGE)
    assert (answer.status, answer.body.decode()) == (200, INDEX)
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path", ["/gql/x", "/oauth/x", "/ext/x", "/webhooks/git/x", "/assets/gone.js", "/k8s/x"]
)
async def test_asset_requests_never_get_the_page(built: Client, path: str) -> None:
    assert (await built.get(path, PAGE)).status == 404


async def test_api_requests_to_unknown_paths_get_404(built: Client) -> None:
    assert (await built.get("/services/1", {"accept": "*/*"})).status == 404
    assert (await built.get("/services/1", PAGE, how="POST")).status == 404


async def test_hashed_files_are_kept_for_ever_and_compressed(built: Client) -> None:
    answer = await built.get("/assets/main-abc123.js", headers={"accept-encoding": "gzip"})
    assert answer.headers["cache-control"].endswith("immutable")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert gzip.decompress(answer.body).decode() == "export {};" * 100
    again = {"if-none-match": answer.headers["etag"]}
    assert (await built.get("/assets/main-abc123.js", again)).status == 304


@pytest.mark.parametrize(
    "path", ["/../admin.token", "/%2e%2e/admin.token", "/assets/../../admin.token"]
)
async def test_nothing_outside_its_folder_is_served(built: Client, path: str) -> None:
    assert b"secret" not in (await built.get(path)).body


async def test_no_page_may_run_or_load_anything_from_elsewhere(built: Client) -> None:
    policy = (await built.get("/", PAGE)).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


async def test_without_a_console_the_page_says_how_to_get_one() -> None:
    bare = Client(None)
    assert b"make console" in (await bare.get("/")).body
    assert (await bare.get("/services", PAGE)).status == 404
