"""Asks, one step after another, what an agent needs: and says which step fails, and what to do."""

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
# What applying, pruning and looking need; the agent itself asks for more as services need it.
_RIGHTS = (
    ("*", "*", "patch", "apply objects"),
    ("*", "*", "delete", "prune objects"),
    ("*", "*", "watch", "see drift"),
    ("", "namespaces", "create", "make namespaces"),
    ("", "pods/log", "get", "read logs"),
    ("batch", "jobs", "create", "run jobs"),
    ("", "users", "impersonate", "let people through with their own rights"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One step: whether it is well, and what was found; `needed`: without it nothing works."""

    step: str
    good: bool
    text: str
    needed: bool = True


class ApiServer(Protocol):
    """The API server, as `kube.client` asks it."""

    async def request(
        self, method: str, path: str, *, query: dict[str, str] | None = None, body: Any = None
    ) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Way:
    """How the control plane is reached; the channel is made anew for the question.

    `proxy`: URL of the HTTP proxy that leads there, and is looked at in its place; empty: none.
    """

    address: str
    ca: bytes | None
    server_name: str | None
    token: str
    connect: Callable[[], AbstractAsyncContextManager[Channel]]
    proxy: str = ""

    @property
    def nearest(self) -> tuple[str, int]:
        """Host and port of what is connected to first. Invalid: no such can be read."""
        if not self.proxy or "://" in self.proxy:
            return _host_port(self.proxy or self.address)
        return _host_port(f"http://{self.proxy}")

    @property
    def whose(self) -> str:
        return " (the proxy that HTTPS_PROXY names)" if self.proxy else ""


async def examine(way: Way, api: ApiServer, folder: Path) -> AsyncIterator[Finding]:
    """All steps in order; a step that rests on a failed one is left out."""
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
        text = f"{host}{way.whose}: {error.strerror}; look at the cluster's DNS"
        return Finding("resolves", False, text)
    addresses = sorted({one[4][0] for one in found})
    return Finding("resolves", True, f"{host}{way.whose} is {', '.join(map(str, addresses))}")


async def _connects(way: Way) -> Finding:
    host, port = way.nearest
    where = f"{host}:{port}{way.whose}"
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        return Finding("connects", False, f"{where}: {why}; is a firewall in the way?")
    writer.close()
    return Finding("connects", True, f"{where} takes connections")


async def _speaks_tls(way: Way) -> Finding:
    scheme = urlsplit(way.address).scheme
    if scheme in {"http", "ws"}:
        return Finding("speaks tls", True, "asked for none: whoever listens in reads the token")
    if way.proxy:
        return Finding("speaks tls", True, "not looked at through a proxy: signing in tells")
    host, port = _host_port(way.address)
    ca = way.ca.decode("ascii", "ignore") if way.ca else None
    context = ssl.create_default_context(cadata=ca)
    context.set_alpn_protocols(["http/1.1" if scheme == "wss" else "h2"])
    name = way.server_name or host
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        text = f"{error.verify_message}: look at the certificate's dates and names, and at the CA"
        return Finding("speaks tls", False, text)
    except ssl.SSLError as error:
        return Finding("speaks tls", False, f"{error.reason or error}; is it the agents' port?")
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    return Finding("speaks tls", True, f"{version}, the certificate is {name}'s")


async def _signs_in(way: Way) -> Finding:
    """Asks for a bundle that cannot be: only who is known is told that there is none."""
    metadata = (("authorization", f"Bearer {way.token}"),)
    request = pb.FetchRequest(digest="sha256:" + "0" * 64)
    async with way.connect() as channel:
        try:
            async for _ in FETCH.ask(channel, metadata, request):
                pass
        except CallFailed as error:
            return _answer(error)
    return Finding("signs in", True, "the control plane knows this token")


def _answer(error: CallFailed) -> Finding:
    if error.status is Status.NOT_FOUND:
        return Finding("signs in", True, "the control plane knows this token")
    if error.status is Status.UNAUTHENTICATED:
        text = f"{error.message}; make a new one: towline clusters rotate-token"
        return Finding("signs in", False, text)
    return Finding("signs in", False, f"{error.status.name}: {error.message}")


async def _version(api: ApiServer) -> Finding:
    answer = await api.request("GET", "/version")
    return Finding("API server", True, f"Kubernetes {answer.get('gitVersion')}")


async def _may(api: ApiServer, group: str, resource: str, verb: str, what: str) -> Finding:
    """A SelfSubjectAccessReview: the API server's own word on the service account's rights."""
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
    missing = f"may not {text}: what needs it will fail; widen the agent's ClusterRole"
    return Finding(f"may {what}", allowed, text if allowed else missing, needed=False)


def _disk(folder: Path) -> Finding:
    place = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    if not os.access(place, os.W_OK):
        return Finding("disk", False, f"{place} cannot be written")
    free = shutil.disk_usage(place).free
    text = f"{free >> 20:,} MiB free in {place}"
    return Finding("disk", free >= _LEAST_FREE, text, needed=False)


def _host_port(address: str) -> tuple[str, int]:
    """Invalid, without saying why: it may be a piece of a password."""
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        return parts.hostname or "", parts.port or (80 if parts.scheme in {"http", "ws"} else 443)
    except ValueError:
        pass
    raise Invalid("no host and port can be read in its URL; percent-encode a password in it")
