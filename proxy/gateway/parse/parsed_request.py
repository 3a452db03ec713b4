"""A request to a cluster, parsed from its head."""

from dataclasses import dataclass

from core.errors import Invalid
from proxy.domain.access import Credential
from proxy.domain.attributes import RequestAttributes, read_attributes
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.credentials import credential
from proxy.gateway.parse.head import RequestHead, rebuild
from proxy.gateway.parse.route import ClusterRoute

_PLACEHOLDER = "\x00"


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request, parsed from its head.
    `attributes` and `credential` are None if they are invalid; `read_attributes` and
    `read_credential` then raise the reason. `plain`: both are present, and the request neither
    upgrades the connection nor impersonates, so that a cached authorization may answer it.
    """

    head: RequestHead
    route: ClusterRoute
    method: str
    user_agent: str
    attributes: RequestAttributes | None
    credential: Credential | None
    plain: bool
    _public_url: str
    _rebuilt: tuple[bytes, bytes]

    @classmethod
    def of(cls, head: RequestHead, route: ClusterRoute, public_url: str = "") -> "ParsedRequest":
        """Parses the head of a request to a cluster. `public_url`: see `credential`."""
        user_agents = head.values(b"user-agent")
        before, _, after = rebuild(head, route.target, _PLACEHOLDER).partition(
            _PLACEHOLDER.encode()
        )
        method = head.method.decode()
        attributes, user_credential = (
            _attributes(method, route),
            _credential(head, route, public_url),
        )
        is_valid = attributes is not None and user_credential is not None
        return cls(
            head,
            route,
            method,
            user_agents[0].decode(errors="replace") if user_agents else "",
            attributes,
            user_credential,
            is_valid and head.upgrade is None and not head.impersonation,
            public_url,
            (before, after),
        )

    @property
    def long_running(self) -> bool:
        """Reports whether the request may take hours, such as a watch."""
        return self.attributes is not None and self.attributes.long_running

    def rebuilt(self, audit_id: str) -> bytes:
        """Builds the head to forward."""
        before, after = self._rebuilt
        return b"%s%s%s" % (before, audit_id.encode(), after)

    def read_attributes(self) -> RequestAttributes:
        """Reads the request attributes. Invalid: the path is ambiguous."""
        return self.attributes or read_attributes(self.method, self.route.target.decode("latin-1"))

    def read_credential(self) -> Credential | None:
        """Reads the credential. BadHead: it is refused."""
        return self.credential or credential(
            self.head, self._public_url, has_pages=not self.route.by_host
        )


def _attributes(method: str, route: ClusterRoute) -> RequestAttributes | None:
    try:
        return read_attributes(method, route.target.decode("latin-1"))
    except Invalid:
        return None


def _credential(head: RequestHead, route: ClusterRoute, public_url: str) -> Credential | None:
    try:
        return credential(head, public_url, has_pages=not route.by_host)
    except BadHead:
        return None
