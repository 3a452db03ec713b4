"""Addresses of clusters without a path: the host `<handle>.<cluster_domain>`.

kubectl and other clients drop the path of a server in some commands, such as `kubectl proxy`.
"""

import re
from collections.abc import Sequence

from core.host_names import hostname, is_below
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.route import ClusterRoute, is_handle

_HOST = re.compile(rb"[A-Za-z0-9._-]{1,254}(?::[0-9]{1,5})?")
_HOST_FIELD = re.compile(rb"\r\nhost:([^\r\n]*)", re.IGNORECASE)


class ClusterHosts:
    """Host names of clusters, one label below a domain. Without a domain there are none."""

    def __init__(self, domain: str = "") -> None:
        self._domain = domain

    def has(self, hosts: Sequence[bytes]) -> bool:
        """Reports whether one of a request's Host fields is below the domain.

        Such a request belongs to the proxy, also if it is refused: the application is never served
        at these names.
        """
        return bool(self._domain) and any(self._is_below(host) for host in hosts)

    def route(self, host: bytes, target: bytes) -> ClusterRoute:
        """Returns the route of a request by its only Host field, which is below the domain.
        BadHead: no cluster can have this name.
        """
        if _HOST.fullmatch(host) is None:
            raise BadHead(400, "the Host field must be a name with an optional port")
        return ClusterRoute(self._handle(host), target, by_host=True)

    def claimed_handle(self, start: bytes) -> str | None:
        """Reads the handle in the first bytes of a refused head, "" if it is none; None: the head
        is not for a host of a cluster.
        """
        hosts = [host.strip(b" \t") for host in _HOST_FIELD.findall(start)]
        if not self.has(hosts):
            return None
        try:
            return self._handle(hosts[0])
        except BadHead:
            return ""

    def _handle(self, host: bytes) -> str:
        name = host.decode("latin-1").lower().partition(":")[0].removesuffix(".")
        handle = name.removesuffix(f".{self._domain}")
        if handle == name or not is_handle(handle):
            raise BadHead(404, f"the host must be <handle>.{self._domain}")
        return handle

    def _is_below(self, host: bytes) -> bool:
        return is_below(hostname(host.decode("latin-1")), self._domain)
