"""Parsed form of a request head, cached so that a repeated head is parsed once."""

from dataclasses import dataclass

from core.errors import Invalid
from proxy.domain.access import Credential
from proxy.domain.attributes import RequestAttributes, read_attributes
from proxy.gateway.authorization import CachedAuthorization
from proxy.gateway.bad_head import BadHead
from proxy.gateway.credentials import credential
from proxy.gateway.head import RequestHead, rebuild
from proxy.gateway.route import ClusterRoute

_PLACEHOLDER = "\x00"


@dataclass(slots=True)
class ParsedRequest:
    """A request, parsed from its head.
    `attributes` and `credential` are None if they are invalid; `read_attributes` and
    `read_credential` then raise the reason. `cached`: the latest authorization result for this
    head.
    """

    head: RequestHead
    route: ClusterRoute
    method: str
    user_agent: str
    attributes: RequestAttributes | None
    credential: Credential | None
    _rebuilt: tuple[bytes, bytes]
    cached: CachedAuthorization | None = None

    @classmethod
    def of(cls, head: RequestHead, route: ClusterRoute) -> "ParsedRequest":
        """Parses the head of a request to a cluster."""
        agents = head.values(b"user-agent")
        before, _, after = rebuild(head, route.target, _PLACEHOLDER).partition(
            _PLACEHOLDER.encode()
        )
        method = head.method.decode()
        return cls(
            head,
            route,
            method,
            agents[0].decode(errors="replace") if agents else "",
            _attributes(method, route),
            _credential(head),
            (before, after),
        )

    def rebuilt(self, audit_id: str) -> bytes:
        """Builds the head to forward."""
        before, after = self._rebuilt
        return b"%s%s%s" % (before, audit_id.encode(), after)

    def read_attributes(self) -> RequestAttributes:
        """Reads the request attributes. Invalid: the path is ambiguous."""
        return self.attributes or read_attributes(self.method, self.route.target.decode("latin-1"))

    def read_credential(self) -> Credential | None:
        """Reads the credential. BadHead: it is refused."""
        return self.credential or credential(self.head)


def _attributes(method: str, route: ClusterRoute) -> RequestAttributes | None:
    try:
        return read_attributes(method, route.target.decode("latin-1"))
    except Invalid:
        return None


def _credential(head: RequestHead) -> Credential | None:
    try:
        return credential(head)
    except BadHead:
        return None
