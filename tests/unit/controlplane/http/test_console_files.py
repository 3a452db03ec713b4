"""The control plane serves the built console."""

import gzip
from pathlib import Path

import pytest

from controlplane.http.app import make_app
from tests.fakes.asgi import AsgiClient

PAGE = "text/html,application/xhtml+xml"
FONT = b"wOF2" * 50
INDEX = '<!doctype html><div id="root"></div>'


async def _ready() -> None:
    return None


async def _graphql(*_: object) -> None:
    raise AssertionError("nothing here asks for GraphQL")


def client(folder: Path | None) -> AsgiClient:
    """A client of an application with the console of a folder."""
    return AsgiClient(make_app(_graphql, _ready, (), folder))


@pytest.fixture
def built(tmp_path: Path) -> AsgiClient:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "main-abc123.js").write_text("export {};" * 100)
    (folder / "assets" / "font-abc123.woff2").write_bytes(FONT)
    (tmp_path / "admin.token").write_text("secret")
    return client(folder)


@pytest.mark.parametrize("path", ["/", "/services/1?tab=history", "/clusters/dev", "/no/such/page"])
async def test_every_address_of_a_page_gets_the_console(built: AsgiClient, path: str) -> None:
    answer = await built.get(path, accept=PAGE)
    assert (answer.status, answer.body.decode()) == (200, INDEX)
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path", ["/gql/x", "/oauth/x", "/ext/x", "/webhooks/git/x", "/assets/gone.js", "/k8s/x"]
)
async def test_asset_requests_never_get_the_page(built: AsgiClient, path: str) -> None:
    assert (await built.get(path, accept=PAGE)).status == 404


async def test_api_requests_to_unknown_paths_get_404(built: AsgiClient) -> None:
    assert (await built.get("/services/1", accept="*/*")).status == 404
    assert (await built.send("POST", "/services/1", headers={"accept": PAGE})).status == 404


async def test_hashed_files_are_kept_for_ever_and_compressed(built: AsgiClient) -> None:
    answer = await built.get("/assets/main-abc123.js", accept_encoding="gzip")
    assert answer.headers["cache-control"].endswith("immutable")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert gzip.decompress(answer.body).decode() == "export {};" * 100
    plain = await built.get("/assets/main-abc123.js")
    assert plain.body == gzip.decompress(answer.body)
    assert plain.headers["content-type"] == answer.headers["content-type"]
    again = await built.get("/assets/main-abc123.js", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert again.headers["cache-control"].endswith("immutable")


async def test_compressed_formats_are_not_compressed_again(built: AsgiClient) -> None:
    answer = await built.get("/assets/font-abc123.woff2", accept_encoding="gzip")
    assert (answer.body, "content-encoding" in answer.headers) == (FONT, False)


async def test_files_are_only_read(built: AsgiClient) -> None:
    assert (await built.send("POST", "/assets/main-abc123.js")).status == 404
    assert (await built.send("HEAD", "/assets/main-abc123.js")).status == 200


async def test_no_websocket_opens_at_an_unknown_path(built: AsgiClient) -> None:
    async with built.websocket("/services/1", "graphql-transport-ws") as socket:
        assert (await socket.receive())["type"] == "websocket.close"


@pytest.mark.parametrize(
    "path", ["/../admin.token", "/%2e%2e/admin.token", "/assets/../../admin.token"]
)
async def test_nothing_outside_its_folder_is_served(built: AsgiClient, path: str) -> None:
    assert b"secret" not in (await built.get(path)).body


async def test_no_page_may_run_or_load_anything_from_elsewhere(built: AsgiClient) -> None:
    policy = (await built.get("/", accept=PAGE)).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


async def test_without_a_console_the_page_says_how_to_get_one() -> None:
    bare = client(None)
    home = await bare.get("/")
    assert (home.status, b"make console" in home.body) == (200, True)
    assert (await bare.get("/services", accept=PAGE)).status == 404
