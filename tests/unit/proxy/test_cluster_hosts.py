"""Clusters that the Host header names, and what hostile hosts get."""

import pytest
from pydantic import ValidationError

from core.identity import TokenKind, new_token
from proxy.domain.access import CredentialKind
from proxy.domain.limits import HeadLimits
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.cluster_hosts import ClusterHosts
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.parser import ApplicationHead, RequestParser
from proxy.gateway.parse.route import ClaimedRoute, ClusterRoute, claimed_route
from proxy.settings import ProxySettings
from tests.unit.proxy.test_credentials import BEARER, COOKIE, CSRF, UPGRADE, subprotocol

DOMAIN = "clusters.example.org"
CONSOLE = "https://towline.example.org"


def parsed(
    host: str, target: str = "/api/v1/pods", fields: bytes = b"", domain: str = DOMAIN
) -> ParsedRequest | ApplicationHead:
    head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n".encode("latin-1")
    found = RequestParser(HeadLimits(), CONSOLE, ClusterHosts(domain)).parse(
        head + fields + b"\r\n"
    )
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    "host",
    [
        "dev.clusters.example.org",
        "dev.clusters.example.org:8443",
        "DEV.Clusters.Example.ORG",
        "dev.clusters.example.org.",
        "dev.clusters.example.org.:443",
        " dev.clusters.example.org\t",
    ],
)
@pytest.mark.parametrize(
    "target", ["/", "/api/v1/pods?watch=1", "/gql", "/k8s/clusters/prod/api", "/login"]
)
def test_the_whole_path_is_that_of_the_cluster(host: str, target: str) -> None:
    """Paths of other clusters, of the API and of the console are none at this host."""
    request = parsed(host, target)
    assert isinstance(request, ParsedRequest)
    assert request.route == ClusterRoute("dev", target.encode(), by_host=True)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("-dev.clusters.example.org", 404),
        ("a.b.clusters.example.org", 404),
        ("d_v.clusters.example.org", 404),
        (f"{'a' * 64}.clusters.example.org", 404),
        (".clusters.example.org", 404),
        ("dev.clusters.example.org..", 404),
        ("dev..clusters.example.org", 404),
        ("user@dev.clusters.example.org", 400),
        ("dev.clusters.example.org:x", 400),
        ("dev.clusters.example.org:1:2", 400),
        ("dev.clusters.example.org/console", 400),
        ("dev.clusters.example.org?console", 400),
        ("dev.clusters.example.org#console", 400),
        ("dev.clu\tsters.example.org", 400),
        ("dev%2eclusters.clusters.example.org", 400),
        ("d\u00e9v.clusters.example.org", 400),
        (f"dev.clusters.example.org\r\nHost: {CONSOLE[8:]}", 400),
        (f"{CONSOLE[8:]}\r\nHost: dev.clusters.example.org", 400),
    ],
)
def test_hostile_hosts_below_the_domain_reach_neither_cluster_nor_application(
    host: str, status: int
) -> None:
    """However the name is written, as long as any reader could take it for one below the domain."""
    with pytest.raises(BadHead) as caught:
        parsed(host)
    assert caught.value.status == status
    with pytest.raises(BadHead):
        parsed(host, "/k8s/clusters/dev/api")


@pytest.mark.parametrize(
    "host",
    [
        "clusters.example.org",
        "dev.clusters.example.org.evil.example",
        "devclusters.example.org",
        "evil.example",
        "towline.example.org",
        "127.0.0.1:8443",
        "[::1]",
        "[dev.clusters.example.org",
        "",
    ],
)
def test_other_hosts_are_those_of_the_application(host: str) -> None:
    """Which answers to its own names alone; there, the path names a cluster."""
    assert isinstance(parsed(host, "/gql"), ApplicationHead)
    request = parsed(host, "/k8s/clusters/dev/api")
    assert isinstance(request, ParsedRequest)
    assert request.route == ClusterRoute("dev", b"/api")


def test_without_a_domain_no_host_names_a_cluster() -> None:
    for host in ("dev.clusters.example.org", "dev.", "dev"):
        assert isinstance(parsed(host, "/gql", domain=""), ApplicationHead)


def test_only_a_path_is_the_target_of_a_request_to_a_cluster() -> None:
    """A full URL could name another host than the header does."""
    with pytest.raises(BadHead) as caught:
        parsed("dev.clusters.example.org", f"{CONSOLE}/api")
    assert caught.value.status == 400


def test_a_connection_changes_between_hosts() -> None:
    """Each request goes by its own Host, whichever came before with the same path."""
    parser = RequestParser(HeadLimits(), CONSOLE, ClusterHosts(DOMAIN))
    kinds = []
    for host in (b"dev.clusters.example.org", b"towline.example.org", b"dev.clusters.example.org"):
        found = parser.parse(b"GET /api HTTP/1.1\r\nHost: %s\r\n\r\n" % host)
        assert found is not None
        kinds.append(type(found[0]))
    assert kinds == [ParsedRequest, ApplicationHead, ParsedRequest]


def test_sessions_are_no_credential_at_the_host_of_a_cluster() -> None:
    """No page of ours is there, and a cluster could serve pages of its own."""
    host = "dev.clusters.example.org"
    request = parsed(host, fields=COOKIE + CSRF + b"Sec-Fetch-Site: same-origin\r\n")
    assert isinstance(request, ParsedRequest)
    assert request.read_credential() is None
    request = parsed(host, fields=COOKIE + BEARER)
    assert isinstance(request, ParsedRequest)
    shown = request.read_credential()
    assert shown is not None and (shown.kind, shown.secret) == (CredentialKind.BEARER, "abc")


@pytest.mark.parametrize(
    ("origin", "is_accepted"),
    [("", True), (CONSOLE, True), ("https://dev.clusters.example.org", False), ("null", False)],
)
def test_the_host_of_a_cluster_is_no_origin_of_ours(origin: str, is_accepted: bool) -> None:
    """A page that a cluster serves there opens no WebSocket with a token of a user."""
    fields = UPGRADE + subprotocol(new_token(TokenKind.TICKET))
    fields += f"Origin: {origin}\r\n".encode() if origin else b""
    request = parsed("dev.clusters.example.org", fields=fields)
    assert isinstance(request, ParsedRequest)
    if is_accepted:
        assert request.read_credential() is not None
        return
    with pytest.raises(BadHead) as caught:
        request.read_credential()
    assert caught.value.status == 403


@pytest.mark.parametrize(
    ("host", "claimed"),
    [
        ("dev.clusters.example.org", ClaimedRoute("GET", "dev")),
        ("-.clusters.example.org", ClaimedRoute("GET", "")),
        ("user@dev.clusters.example.org", ClaimedRoute("GET", "")),
        ("towline.example.org", None),
    ],
)
def test_a_refused_head_at_the_host_of_a_cluster_is_audited(
    host: str, claimed: ClaimedRoute | None
) -> None:
    start = f"GET /gql HTTP/1.1\r\nX: y\r\nHOST:{host} \r\nY: z\r\n\r\n".encode()
    assert claimed_route(start, ClusterHosts(DOMAIN).claimed_handle(start)) == claimed
    assert claimed_route(start, ClusterHosts().claimed_handle(start)) is None


@pytest.mark.parametrize(
    ("given", "domain"),
    [
        ("", ""),
        ("clusters.example.org", "clusters.example.org"),
        (" Clusters.Example.ORG. ", "clusters.example.org"),
        ("clusters.localhost", "clusters.localhost"),
        (f"{'a' * 60}.{'b' * 60}.{'c' * 60}.de", f"{'a' * 60}.{'b' * 60}.{'c' * 60}.de"),
        ("localhost", None),
        ("*.example.org", None),
        ("10.0.0.1", None),
        ("a..example.org", None),
        ("-a.example.org", None),
        ("https://example.org", None),
        (f"{'a' * 63}.{'b' * 63}.{'c' * 62}", None),
    ],
)
def test_the_domain_is_one_that_clients_can_verify(given: str, domain: str | None) -> None:
    """At least two labels, because OpenSSL accepts no wildcard certificate of one."""
    if domain is not None:
        assert ProxySettings(cluster_domain=given).cluster_domain == domain
        return
    with pytest.raises(ValidationError, match="cluster_domain"):
        ProxySettings(cluster_domain=given)
