"""Parses the request heads of one connection."""

from dataclasses import dataclass

from proxy.domain.limits import HeadLimits
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.cluster_hosts import ClusterHosts
from proxy.gateway.parse.head import END_OF_HEAD, RequestHead, parse_head, validate_head
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.route import find_route, is_cluster_request


@dataclass(frozen=True, slots=True)
class ApplicationHead:
    """A head of a request to the application, with its bytes."""

    head: RequestHead
    raw: bytes


class RequestParser:
    """Parses request heads. Clients repeat requests with the same bytes, so the last result is
    cached.
    """

    __slots__ = ("_hosts", "_last", "_last_raw", "_limits", "_public_url")

    def __init__(
        self, limits: HeadLimits, public_url: str = "", hosts: ClusterHosts | None = None
    ) -> None:
        self._limits, self._public_url = limits, public_url
        self._hosts = hosts or ClusterHosts()
        self._last_raw = b""
        self._last: ParsedRequest | ApplicationHead | None = None

    @property
    def last_request(self) -> tuple[bytes, ParsedRequest] | None:
        """The last head, with its bytes, if it is of a request to a cluster."""
        last = self._last
        return (self._last_raw, last) if isinstance(last, ParsedRequest) else None

    def forget(self) -> None:
        """Drops the last result."""
        self._last_raw, self._last = b"", None

    def parse(self, data: bytes) -> tuple[ParsedRequest | ApplicationHead, bytes] | None:
        """Parses the head at the start of `data` and returns it with the bytes after it.
        None: the head is incomplete. BadHead: refused.
        """
        if data == self._last_raw and self._last is not None:
            return self._last, b""
        for_cluster = is_cluster_request(data)
        end = data.find(END_OF_HEAD)
        if end < 0 or for_cluster is None or end > self._limits.size:
            self._check_size(data)
            return None
        raw = data[: end + 4]
        if raw != self._last_raw or self._last is None:
            self._last = self._parse_head(raw, by_path=for_cluster)
            self._last_raw = raw
        return self._last, data[end + 4 :]

    def _check_size(self, data: bytes) -> None:
        limit = self._limits.size
        if len(data) > limit:
            raise BadHead(431, f"the request head exceeds {limit} bytes", data)

    def _parse_head(self, raw: bytes, *, by_path: bool) -> ParsedRequest | ApplicationHead:
        try:
            head = parse_head(raw, self._limits)
            by_host = self._hosts.has(head.values(b"host"))
            if not (by_host or by_path):
                return ApplicationHead(head, raw)
            return self._parse_request(head, by_host=by_host)
        except BadHead as error:
            error.start = raw
            raise

    def _parse_request(self, head: RequestHead, *, by_host: bool) -> ParsedRequest:
        """Parses a request to a cluster. The host comes first: at the host of a cluster, the path
        is that of its API server.
        """
        validate_head(head)
        if by_host:
            (host,) = head.values(b"host")
            route = self._hosts.route(host, head.target)
        else:
            route = find_route(head.target)
        if route is None:
            raise BadHead(404, "the path must be /k8s/clusters/<handle>/…")
        return ParsedRequest.of(head, route, self._public_url)
