"""A control plane without any resource."""

import http.server
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

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

_WORDS_OF_LEAVES = {"Int": 0, "Float": 0.0, "Boolean": False}


@cache
def schema() -> GraphQLSchema:
    return build_schema((Path(__file__).parents[2] / "schema.graphql").read_text())


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


@contextmanager
def empty_control_plane() -> Generator[str]:
    """Serves on a free port of 127.0.0.1; yields its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _EmptyControlPlane) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
