"""Attributes of a request, as the API server sees them."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.errors import Invalid
from proxy.domain.attributes import RequestAttributes, read_attributes
from proxy.gateway.parse.route import find_route, is_cluster_request

PODS = "/api/v1/namespaces/a/pods"


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/pods", "list pods"),
        ("GET", "/api/v1/pods/", "list pods"),
        ("GET", "/api/v1/pods?watch=true", "watch pods"),
        ("GET", "/api/v1/pods?w%61tch=1", "watch pods"),
        ("GET", "/api/v1/pods?watch=0", "list pods"),
        ("GET", "/api/v1/watch/pods", "watch pods"),
        ("GET", PODS, "list pods a"),
        ("GET", f"{PODS}/b", "get pods a/b"),
        ("HEAD", f"{PODS}/b", "get pods a/b"),
        ("GET", f"{PODS}/b/log?follow=true", "get pods/log a/b"),
        ("GET", f"{PODS}/b/exec?command=x", "get pods/exec a/b"),
        ("POST", PODS, "create pods a"),
        ("PUT", f"{PODS}/b", "update pods a/b"),
        ("PATCH", f"{PODS}/b/status", "patch pods/status a/b"),
        ("DELETE", f"{PODS}/b", "delete pods a/b"),
        ("DELETE", PODS, "deletecollection pods a"),
        ("GET", "/api/v1/namespaces", "list namespaces"),
        ("GET", "/api/v1/namespaces/a", "get namespaces a/a"),
        ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a/a"),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", "get deployments/scale a/b"),
        ("GET", "/apis/apps/v1/deployments", "list deployments"),
        ("GET", "/api/v1/nodes/n/proxy/metrics", "get nodes/proxy n"),
        ("GET", f"{PODS}/b/proxy/x%2Fy//z;w", "get pods/proxy a/b"),
        ("GET", "/", "get /"),
        ("GET", "/version", "get /version"),
        ("GET", "/apis", "get /apis"),
        ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
        ("GET", "/openapi/v3/apis/apps/v1", "get /openapi/v3/apis/apps/v1"),
        ("OPTIONS", "/", "options /"),
        ("GET", "/apis/g/v1/clusterroles/system%3Anode", "get clusterroles system:node"),
        ("GET", f"{PODS}/a%2Db", "get pods a/a-b"),
        ("GET", "/api/v1/namespaces/%61/pods/b", "get pods a/b"),
        ("GET", "/%61pi/v1/secre%74s", "list secrets"),
        ("GET", "/api/v1/%77atch/pods", "watch pods"),
        ("GET", f"{PODS}/b/e%78ec", "get pods/exec a/b"),
        ("GET", f"{PODS}/b/pro%78y/%2e%2d%2Fx/%61", "get pods/proxy a/b"),
        ("GET", f"{PODS}/r%C3%B4le", "get pods a/r\xf4le"),
        ("GET", f"{PODS}/b;c", "get pods a/b;c"),
        ("GET", f"{PODS}/b%3Fwatch=1%23", "get pods a/b?watch=1#"),
        ("GET", "/vers%69on", "get /version"),
    ],
)
def test_attributes(method: str, target: str, expected: str) -> None:
    """Verb, resource, namespace and name of each kind of path."""
    assert str(read_attributes(method, target)) == expected


@pytest.mark.parametrize(
    ("query", "watches"),
    [
        ("watch", True),
        ("watch=", True),
        ("watch=1", True),
        ("watch=no", True),
        ("watch=False", False),
        ("watch=FALSE", False),
        ("watch=fal%C5%BFe", False),
        ("watch=false", False),
        ("watch=0", False),
        ("watch=00", True),
        ("watch=+0", True),
        ("watch=%30", False),
        ("w%61tch", True),
        ("Watch=1", False),
        ("watch=0&watch=1", False),
        ("watch=1&watch=0", True),
        ("watch=1;x&watch=0", False),
        ("watch=%zz&watch=0", False),
        ("w%atch=1", False),
        ("limit=x&watch", True),
        ("unwatched=1", False),
        ("", False),
    ],
)
def test_watch_requests_are_recognised_as_the_api_server_does(query: str, watches: bool) -> None:
    """As the API server: the first value counts, and only `0` and `false` are a no.

    Only a request without a name becomes a watch; one with a name is judged as a `get`.
    """
    many = read_attributes("GET", f"{PODS}?{query}")
    assert many.verb == ("watch" if watches else "list")
    one = read_attributes("GET", f"{PODS}/b?{query}")
    assert (one.verb, one.long_running) == ("get", watches)
    assert read_attributes("GET", f"/api/v1/watch/namespaces/a/pods/b?{query}").verb == "watch"
    assert read_attributes("DELETE", f"{PODS}?{query}").verb == "deletecollection"


def test_connections_into_a_workload_count_as_writes() -> None:
    """WebSocket exec is a GET, and yet no read."""
    for subresource in ("exec", "attach", "portforward", "proxy", "ephemeralcontainers"):
        assert read_attributes("GET", f"{PODS}/b/{subresource}").writes
    for target in (PODS, f"{PODS}/b", f"{PODS}/b/log", "/version"):
        assert not read_attributes("GET", target).writes
        assert read_attributes("POST", target).writes


def test_watches_logs_and_connections_are_long_running() -> None:
    """Watches, logs and connections have no time limit; others do."""
    for target in (f"{PODS}?watch=1", f"{PODS}/b/log", f"{PODS}/b/exec"):
        assert read_attributes("GET", target).long_running
    assert not read_attributes("GET", PODS).long_running


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/../v1/pods",
        "/api/v1/./pods",
        "/api/v1/%2e%2e/pods",
        "/api/v1/.%2E/pods",
        "/api/v1/pods/..",
        "/api/v1/x/..%2fpods",
        f"{PODS}/b/proxy/../secrets",
        f"{PODS}/b/proxy/x%2f..%2f..",
        "/api//v1/pods",
        "//api/v1/pods",
        "/api/v1//",
        "/api/v1/namespaces/default%2fpods",
        "/api/v1/namespaces/a\\b/pods",
        "/api/v1/namespaces/a%5cb/pods",
        f"{PODS}/a%25",
        f"{PODS}/a%252fb",
        f"{PODS}/a%00",
        f"{PODS}/a%0Ab",
        f"{PODS}/a%1b[31m",
        f"{PODS}/a%E2%80%AEb",
        f"{PODS}/a%ff",
        f"{PODS}/a%c0%af",
        f"{PODS}/a%",
        f"{PODS}/a%zz",
        f"{PODS}/\xe9",
        f"{PODS}/b%2fc/pro%78y/x",
        "/api/v1/nodes/n/pro%78y/../x",
        "/api/v1/namespaces/services/services/a/%2fproxy/x",
        "/apis/apps/v1/namespaces//deployments",
        f"{PODS}/b%2fc/proxy/x",
    ],
)
def test_paths_that_two_readers_read_in_two_ways(target: str) -> None:
    """They are refused, never put in order."""
    with pytest.raises(Invalid):
        read_attributes("GET", target)


@settings(deadline=None)
@given(st.text(alphabet="/ab.%2eEfF;\\?=&proxypods", max_size=40))
def test_an_accepted_path_has_one_reading(path: str) -> None:
    """Up to a proxied tail, nothing is left to decode, to split or to clean."""
    try:
        attributes = read_attributes("GET", "/" + path)
    except Invalid:
        return
    assert isinstance(attributes, RequestAttributes)
    own = attributes.path.partition("/proxy/")[0] if attributes.subresource else attributes.path
    assert "%" not in own
    assert "//" not in own
    assert "/../" not in own + "/"


SEGMENTS = st.lists(
    st.sampled_from(
        ["api", "apis", "v1", "namespaces", "watch", "proxy", "pods", "nodes", "system:node", "a-b"]
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(SEGMENTS, st.data())
def test_the_spelling_of_a_path_changes_nothing(segments: list[str], data: st.DataObject) -> None:
    """A client may encode any character; the request stays the same."""
    plain = "/" + "/".join(segments)
    spelled = "".join(
        f"%{ord(char):02x}" if char != "/" and data.draw(st.booleans()) else char for char in plain
    )
    expected, found = read_attributes("GET", plain), read_attributes("GET", spelled)
    if found.subresource == "proxy":
        expected, found = replace(expected, path=""), replace(found, path="")
    assert found == expected


@settings(deadline=None)
@given(st.binary(max_size=30), st.integers(0, 30))
@example(b"a method that is too long ", 17)
@example(bytes(17) + b" ", 17)
def test_request_routing_does_not_depend_on_the_chunk_boundary(rest: bytes, cut: int) -> None:
    """A verdict on a part is the verdict on the whole; no verdict only while it is short."""
    for start in (b"GET /k8s/" + rest, b"GET /" + rest, rest):
        early, late = is_cluster_request(start[:cut]), is_cluster_request(start)
        assert early is None or early is late
        if len(start) > 25:
            assert late is not None


def test_routes() -> None:
    """Handles are compared undecoded; what follows is passed on byte for byte."""
    assert find_route(b"/k8s/clusters/a-1") is not None
    for target, rest in (
        (b"/k8s/clusters/a/api?x=%2f", b"/api?x=%2f"),
        (b"/k8s/clusters/a", b"/"),
        (b"/k8s/clusters/a?x", b"/?x"),
    ):
        route = find_route(target)
        assert route is not None
        assert (route.handle, route.target) == ("a", rest)
    for target in (b"/k8s/clusters/", b"/k8s/clusters/-a/", b"/k8s/clusters/a%62/", b"/k8s/x/a"):
        assert find_route(target) is None
