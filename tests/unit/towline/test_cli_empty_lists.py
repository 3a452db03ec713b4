"""Lists of an installation that has nothing yet: a sentence, not silence."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLResolveInfo,
    GraphQLSchema,
    build_schema,
    graphql_sync,
    is_leaf_type,
)

from tests.fakes.command_line import Finished, Leaf, leaves, run_in_process

LISTS = [
    leaf
    for leaf in leaves()
    if leaf.words[-1] == "list" and not any(one.required for one in leaf.command.params)
]
_WORDS_OF_LEAVES = {"Int": 0, "Float": 0.0, "Boolean": False}


@cache
def schema() -> GraphQLSchema:
    return build_schema((Path(__file__).parents[3] / "schema.graphql").read_text())


def nothing(_: object, info: GraphQLResolveInfo, **__: object) -> object:
    """The least value of a field: empty lists, connections without edges, and null elsewhere."""
    return _least(info.return_type)


def _least(kind: GraphQLOutputType) -> object:
    if isinstance(kind, GraphQLNonNull):
        return _something(kind.of_type)
    if isinstance(kind, GraphQLObjectType) and kind.name.endswith("Connection"):
        return {}
    return [] if isinstance(kind, GraphQLList) else None


def _something(kind: GraphQLOutputType) -> object:
    if isinstance(kind, GraphQLEnumType):
        return next(iter(kind.values))
    if isinstance(kind, GraphQLList):
        return []
    return _WORDS_OF_LEAVES.get(str(kind), "") if is_leaf_type(kind) else {}


class _EmptyControlPlane(http.server.BaseHTTPRequestHandler):
    """Answers every query as an installation without any resource."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = graphql_sync(
            schema(), asked["query"], variable_values=asked["variables"], field_resolver=nothing
        )
        assert not found.errors, found.errors
        body = json.dumps({"data": found.data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _EmptyControlPlane) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def run(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., Finished]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("TOWLINE_URL", url)
    monkeypatch.setenv("TOWLINE_TOKEN", "a-token")
    return lambda *words: run_in_process(words, monkeypatch, capfd)


def test_there_are_lists() -> None:
    assert len(LISTS) > 15


@pytest.mark.parametrize("leaf", LISTS, ids=lambda leaf: " ".join(leaf.words))
def test_an_empty_list_is_a_sentence_for_people_and_a_list_for_programs(
    run: Callable[..., Finished], leaf: Leaf
) -> None:
    assert run(*leaf.words) == Finished(0, "", "nothing found\n")
    assert run(*leaf.words, "-o", "json") == Finished(0, "[]\n", "")
