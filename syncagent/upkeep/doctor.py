"""Diagnosis of an agent's requirements, step by step, with advice for each failure."""

import asyncio
import os
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from fleet.errors import Invalid, TowlineError
from fleet.rpc.calls import CallFailed, Channel, Status
from fleet.rpc.methods import FETCH
from fleet.wire.v1 import agent_pb2 as pb

_PATIENCE_S = 10.0
_LEAST_FREE = 200 << 20
# Permissions for applying, pruning and watching; services may need more.
_RIGHTS = (
    ("*", "*", "patch", "apply objects"),
    ("*", "*", "delete", "prune objects"),
    ("*", "*", "watch", "see drift"),
    ("", "namespaces", "create", "create namespaces"),
    ("", "pods/log", "get", "read logs"),
    ("batch", "jobs", "create", "run jobs"),
    ("", "users", "impersonate", "impersonate users"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one step; `needed`: the agent cannot work without it."""

    step: str
    good: bool
    text: str
    needed: bool = True


class ApiServer(Protocol):
    """The part of `kube.client` that the doctor uses."""

    async def request(
        self, method: str, path: str, *, query: dict[str, str] | None = None, body: Any = None
    ) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Way:
    """Address and credentials of the control plane; `connect` opens a new channel.
    `proxy`: URL of the HTTP proxy on the route, which the doctor checks instead of the address;
    empty: none.
    """

    address: str
    ca: bytes | None
    server_name: str | None
    token: str
    connect: Callable[[], AbstractAsyncContextManager[Channel]]
    proxy: str = ""

    @property
    def nearest(self) -> tuple[str, int]:
        """Host and port of the first hop. Invalid: the URL cannot be parsed."""
        if not self.proxy or "://" in self.proxy:
            return _host_port(self.proxy or self.address)
        return _host_port(f"http://{self.proxy}")

    @property
    def whose(self) -> str:
        return " (the proxy from HTTPS_PROXY)" if self.proxy else ""


async def examine(way: Way, api: ApiServer, folder: Path) -> AsyncIterator[Finding]:
    """Runs all steps in order; skips steps that depend on a failed one."""
    reached = True
    for step in (_resolves, _connects, _speaks_tls, _signs_in):
        if not reached:
            break
        finding = await _bounded(step.__name__.strip("_").replace("_", " "), step(way))
        reached = finding.good
        yield finding
    version = await _bounded("API server", _version(api))
    yield version
    if version.good:
        for group, resource, verb, what in _RIGHTS:
            yield await _bounded(f"may {what}", _may(api, group, resource, verb, what))
    yield _disk(folder)


async def _bounded(step: str, work: Awaitable[Finding]) -> Finding:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await work
    except TimeoutError:
        return Finding(step, False, f"no answer within {_PATIENCE_S:.0f} s")
    except (OSError, TowlineError, UnicodeError) as error:
        return Finding(step, False, str(error))


async def _resolves(way: Way) -> Finding:
    host, port = way.nearest
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        text = f"{host}{way.whose}: {error.strerror}; check the cluster's DNS"
        return Finding("resolves", False, text)
    addresses = sorted({address[4][0] for address in found})
    return Finding("resolves", True, f"{host}{way.whose} is {', '.join(map(str, addresses))}")


async def _connects(way: Way) -> Finding:
    host, port = way.nearest
    where = f"{host}:{port}{way.whose}"
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        return Finding("connects", False, f"{where}: {why}; check for a firewall")
    writer.close()
    return Finding("connects", True, f"{where} accepts connections")


async def _speaks_tls(way: Way) -> Finding:
    scheme = urlsplit(way.address).scheme
    if scheme in {"http", "ws"}:
        return Finding(
            "speaks tls", True, "off by the address: the token is readable on the network"
        )
    if way.proxy:
        return Finding("speaks tls", True, "not checked through a proxy; see the sign-in step")
    host, port = _host_port(way.address)
    ca = way.ca.decode("ascii", "ignore") if way.ca else None
    context = ssl.create_default_context(cadata=ca)
    context.set_alpn_protocols(["http/1.1" if scheme == "wss" else "h2"])
    name = way.server_name or host
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        text = f"{error.verify_message}: check the certificate's dates and names, and the CA"
        return Finding("speaks tls", False, text)
    except ssl.SSLError as error:
        return Finding(
            "speaks tls", False, f"{error.reason or error}; check that this is the agents' port"
        )
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    return Finding("speaks tls", True, f"{version}, certificate of {name}")


async def _signs_in(way: Way) -> Finding:
    """Requests a bundle that cannot exist: only an authenticated agent gets "not found"."""
    metadata = (("authorization", f"Bearer {way.token}"),)
    request = pb.FetchRequest(digest="sha256:" + "0" * 64)
    async with way.connect() as channel:
        try:
            async for _ in FETCH.ask(channel, metadata, request):
                pass
        except CallFailed as error:
            return _answer(error)
    return Finding("signs in", True, "the control plane accepts the token")


def _answer(error: CallFailed) -> Finding:
    if error.status is Status.NOT_FOUND:
        return Finding("signs in", True, "the control plane accepts the token")
    if error.status is Status.UNAUTHENTICATED:
        text = f"{error.message}; create a new token: towline clusters rotate-token"
        return Finding("signs in", False, text)
    return Finding("signs in", False, f"{error.status.name}: {error.message}")


async def _version(api: ApiServer) -> Finding:
    answer = await api.request("GET", "/version")
    return Finding("API server", True, f"Kubernetes {answer.get('gitVersion')}")


async def _may(api: ApiServer, group: str, resource: str, verb: str, what: str) -> Finding:
    """Checks a permission of the service account by a SelfSubjectAccessReview."""
    name, _, below = resource.partition("/")
    attributes = {"group": group, "resource": name, "subresource": below, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await api.request("POST", path, body=review)
    allowed = bool((answer.get("status") or {}).get("allowed"))
    text = f"{verb} {resource}" + (f" of {group}" if group else "")
    missing = f"no permission to {text}: its operations will fail; extend the agent's ClusterRole"
    return Finding(f"may {what}", allowed, text if allowed else missing, needed=False)


def _disk(folder: Path) -> Finding:
    place = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    if not os.access(place, os.W_OK):
        return Finding("disk", False, f"{place} cannot be written")
    free = shutil.disk_usage(place).free
    text = f"{free >> 20:,} MiB free in {place}"
    return Finding("disk", free >= _LEAST_FREE, text, needed=False)


def _host_port(address: str) -> tuple[str, int]:
    """Parses host and port. Invalid, without details: the text may contain a part of a password."""
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        return parts.hostname or "", parts.port or (80 if parts.scheme in {"http", "ws"} else 443)
    except ValueError:
        pass
    raise Invalid("cannot parse host and port of the URL; percent-encode the password in it")
