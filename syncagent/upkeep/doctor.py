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
from typing import Protocol
from urllib.parse import urlsplit

from core.errors import Invalid, TowlineError
from core.json_object import JsonValue
from core.mux.codec import Hello, ProtocolError, frames
from core.native import data_link_version, describe_data_link_versions, is_available
from core.rpc.calls import CallChannel, CallFailed, CallStatus
from core.rpc.methods import FETCH, TUNNEL
from core.spec.bundle import KubeObject
from core.tls import client_context
from core.wire.v1 import agent_pb2 as pb
from syncagent.ports import PinnedKey

_TIMEOUT_S = 10.0
_MIN_FREE = 200 << 20
# Permissions for applying, pruning and watching; services may need more.
_PERMISSIONS = (
    ("*", "*", "patch", "apply objects"),
    ("*", "*", "delete", "prune objects"),
    ("*", "*", "watch", "see drift"),
    ("", "namespaces", "create", "create namespaces"),
    ("", "pods/log", "get", "read logs"),
    ("batch", "jobs", "create", "run jobs"),
    ("", "users", "impersonate", "impersonate users"),
)


TunnelCheck = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class DoctorResult:
    """Result of one step; `needed`: the agent cannot work without it."""

    step: str
    good: bool
    text: str
    needed: bool = True


class ApiServer(Protocol):
    """The part of `kube.client` that the doctor uses."""

    async def request(
        self, method: str, path: str, *, query: dict[str, str] | None = None, body: JsonValue = None
    ) -> KubeObject: ...


@dataclass(frozen=True, slots=True)
class ControlPlaneAccess:
    """Address and credentials of the control plane; `connect` opens a new channel.
    `proxy`: URL of the HTTP proxy on the route, which the doctor checks instead of the address;
    empty: none.
    """

    address: str
    ca: bytes | None
    server_name: str | None
    token: str
    connect: Callable[[], AbstractAsyncContextManager[CallChannel]]
    proxy: str = ""

    @property
    def first_hop(self) -> tuple[str, int]:
        """Host and port of the first hop. Invalid: the URL cannot be parsed."""
        if not self.proxy or "://" in self.proxy:
            return _host_port(self.proxy or self.address)
        return _host_port(f"http://{self.proxy}")

    @property
    def proxy_note(self) -> str:
        return " (the proxy from HTTPS_PROXY)" if self.proxy else ""


async def _no_check() -> str:
    return ""


def check_signing_key(pin: PinnedKey | None, expected: str, *, unsigned: bool) -> DoctorResult:
    """Checks the key that the agent has pinned, and the last refusal of another one."""
    if unsigned:
        text = "off by autonomy.unsigned: the control plane may deploy anything"
        return DoctorResult("signing key", False, text, needed=False)
    if pin is None:
        text = f"will pin {expected}" if expected else "none yet: will pin the first key"
        return DoctorResult("signing key", True, text, needed=False)
    text = pin.problem or f"pinned {pin.key_id} for cluster {pin.cluster_id}"
    return DoctorResult("signing key", not pin.problem, text)


async def diagnose(
    control_plane: ControlPlaneAccess,
    api: ApiServer,
    folder: Path,
    tunnel_check: TunnelCheck = _no_check,
) -> AsyncIterator[DoctorResult]:
    """Runs all steps in order; skips steps that depend on a failed one.
    `tunnel_check` returns the reason if the API server must not get users' requests.
    """
    reached = True
    for step, check in _CONNECTION_CHECKS:
        if not reached:
            break
        finding = await _with_timeout(step, check(control_plane))
        reached = finding.good
        yield finding
    version = await _with_timeout("API server", _check_version(api))
    yield version
    if version.good and reached:
        yield await _with_timeout(
            "tunnel", _check_tunnel(control_plane, tunnel_check), needed=False
        )
    if version.good:
        for group, resource, verb, what in _PERMISSIONS:
            yield await _with_timeout(
                f"may {what}", _check_permission(api, group, resource, verb, what)
            )
    yield _check_disk(folder)


async def _with_timeout(
    step: str, work: Awaitable[DoctorResult], *, needed: bool = True
) -> DoctorResult:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await work
    except TimeoutError:
        return DoctorResult(step, False, f"no answer within {_TIMEOUT_S:.0f} s", needed)
    except (OSError, TowlineError, UnicodeError) as error:
        return DoctorResult(step, False, str(error), needed)


async def _check_name(control_plane: ControlPlaneAccess) -> DoctorResult:
    host, port = control_plane.first_hop
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        text = f"{host}{control_plane.proxy_note}: {error.strerror}; check the cluster's DNS"
        return DoctorResult("resolves", False, text)
    addresses = sorted({address[4][0] for address in found})
    return DoctorResult(
        "resolves", True, f"{host}{control_plane.proxy_note} is {', '.join(map(str, addresses))}"
    )


async def _check_connection(control_plane: ControlPlaneAccess) -> DoctorResult:
    host, port = control_plane.first_hop
    where = f"{host}:{port}{control_plane.proxy_note}"
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        return DoctorResult("connects", False, f"{where}: {why}; check for a firewall")
    writer.close()
    return DoctorResult("connects", True, f"{where} accepts connections")


async def _check_tls(control_plane: ControlPlaneAccess) -> DoctorResult:
    scheme = urlsplit(control_plane.address).scheme
    if scheme in {"http", "ws"}:
        return DoctorResult(
            "speaks tls", True, "off by the address: the token is readable on the network"
        )
    if control_plane.proxy:
        return DoctorResult("speaks tls", True, "not checked through a proxy; see the sign-in step")
    host, port = _host_port(control_plane.address)
    ca = control_plane.ca.decode("ascii", "ignore") if control_plane.ca else None
    context = client_context(text=ca)
    context.set_alpn_protocols(["http/1.1" if scheme == "wss" else "h2"])
    name = control_plane.server_name or host
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        text = f"{error.verify_message}: check the certificate's dates and names, and the CA"
        return DoctorResult("speaks tls", False, text)
    except ssl.SSLError as error:
        return DoctorResult(
            "speaks tls", False, f"{error.reason or error}; check that this is the agents' port"
        )
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    return DoctorResult("speaks tls", True, f"{version}, certificate of {name}")


async def _check_sign_in(control_plane: ControlPlaneAccess) -> DoctorResult:
    """Requests a bundle that cannot exist: only an authenticated agent gets "not found"."""
    metadata = (("authorization", f"Bearer {control_plane.token}"),)
    request = pb.FetchRequest(digest="sha256:" + "0" * 64)
    async with control_plane.connect() as channel:
        try:
            async for _ in FETCH.stream_responses(channel, metadata, request):
                pass
        except CallFailed as error:
            return _sign_in_result(error)
    return DoctorResult("signs in", True, "the control plane accepts the token")


def _sign_in_result(error: CallFailed) -> DoctorResult:
    if error.status is CallStatus.NOT_FOUND:
        return DoctorResult("signs in", True, "the control plane accepts the token")
    if error.status is CallStatus.UNAUTHENTICATED:
        text = f"{error.message}; create a new token: towline clusters rotate-token"
        return DoctorResult("signs in", False, text)
    return DoctorResult("signs in", False, f"{error.status.name}: {error.message}")


_CONNECTION_CHECKS = (
    ("resolves", _check_name),
    ("connects", _check_connection),
    ("speaks tls", _check_tls),
    ("signs in", _check_sign_in),
)


async def _check_tunnel(control_plane: ControlPlaneAccess, check: TunnelCheck) -> DoctorResult:
    """Checks both ends of the tunnel. Sends nothing, so that a running agent keeps its tunnel."""
    if reason := await check():
        return DoctorResult("tunnel", False, f"no tunnel for kubectl: {reason}", needed=False)
    async with control_plane.connect() as channel:
        try:
            call = await channel.call(TUNNEL, (("authorization", f"Bearer {control_plane.token}"),))
            message = await call.read()
            call.cancel()
        except CallFailed as error:
            text = f"no tunnel for kubectl: {error.message}"
            return DoctorResult("tunnel", False, text, needed=False)
    if message is None:
        return DoctorResult("tunnel", False, "the control plane closes it", needed=False)
    text = "the control plane accepts it"
    if note := _data_link_note(message):
        text = f"{text}; {note}"
    return DoctorResult("tunnel", True, text, needed=False)


def _data_link_note(message: bytes) -> str:
    """Compares the data links of both ends, from the control plane's first message; empty: there is
    nothing to say.
    """
    try:
        _, _, start, end = next(frames(message))
        control_plane = Hello.unpack(message[start:end]).data_link
    except (ProtocolError, StopIteration):
        return ""
    return describe_data_link_versions(control_plane, data_link_version() if is_available() else 0)


async def _check_version(api: ApiServer) -> DoctorResult:
    answer = await api.request("GET", "/version")
    return DoctorResult("API server", True, f"Kubernetes {answer.get('gitVersion')}")


async def _check_permission(
    api: ApiServer, group: str, resource: str, verb: str, what: str
) -> DoctorResult:
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
    return DoctorResult(f"may {what}", allowed, text if allowed else missing, needed=False)


def _check_disk(folder: Path) -> DoctorResult:
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    if not os.access(existing, os.W_OK):
        return DoctorResult("disk", False, f"{existing} cannot be written")
    free = shutil.disk_usage(existing).free
    text = f"{free >> 20:,} MiB free in {existing}"
    return DoctorResult("disk", free >= _MIN_FREE, text, needed=False)


def _host_port(address: str) -> tuple[str, int]:
    """Parses host and port. Invalid, without details: the text may contain a part of a password."""
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        return parts.hostname or "", parts.port or (80 if parts.scheme in {"http", "ws"} else 443)
    except ValueError:
        pass
    raise Invalid("cannot parse host and port of the URL; percent-encode the password in it")
