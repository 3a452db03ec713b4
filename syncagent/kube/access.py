"""Address of the API server, and the agent's credentials for it.
In a cluster: the service account's files, whose token Kubernetes renews in place. Outside: a
kubeconfig with certificates, a token, a token file or an exec plugin
(client.authentication.k8s.io/v1).
"""

import asyncio
import base64
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import yaml

from core.errors import Invalid, Unavailable
from core.runtime.clock import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_LIFE = timedelta(seconds=60)
_EXEC_API = "client.authentication.k8s.io/v1"

Bearer = tuple[str, datetime]
TokenSource = Callable[[], Awaitable[Bearer]]
Pair = tuple[bytes | None, bytes | None]
Section = dict[str, Any]
"""A cluster, user, context or plug-in of a kubeconfig."""


class BearerToken:
    """A bearer token, renewed from its source when it expires."""

    def __init__(self, source: TokenSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._current: Bearer | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> str:
        if self._current is not None and self._clock.now() < self._current[1]:
            return self._current[0]
        async with self._lock:
            if self._current is None or self._current[1] <= self._clock.now():
                self._current = await self._source()
            return self._current[0]

    def expire(self) -> None:
        """Marks the token as expired after the API server refused it."""
        self._current = None


@dataclass(frozen=True, slots=True)
class ApiServerAccess:
    """A server (`https://host:port`, possibly with a path) and the credentials for it.
    `certified`: `tls` has a client certificate, so every request over it has its permissions.
    `renew` reads authorities and certificates again, which may have been rotated.
    """

    server: str
    tls: ssl.SSLContext | None
    token: BearerToken | None = None
    certified: bool = False
    renew: Callable[[], ssl.SSLContext] | None = None

    async def headers(self) -> dict[str, str]:
        """Returns the headers that authenticate a request."""
        return {"Authorization": f"Bearer {await self.token.get()}"} if self.token else {}


def in_cluster(
    clock: Clock, environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> ApiServerAccess:
    """Reads the access from this pod's service account. Invalid: not in a cluster."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (folder / "token").exists():
        raise Invalid("not inside a cluster: specify a kubeconfig")
    address = f"[{host}]" if ":" in host else host

    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(folder / "ca.crt"))

    token = BearerToken(_from_file(folder / "token", clock), clock)
    return ApiServerAccess(f"https://{address}:{port}", trust(), token, renew=trust)


def from_kubeconfig(path: Path, context: str | None, clock: Clock) -> ApiServerAccess:
    """Reads the access from a kubeconfig. Invalid: the file or the context is not usable."""
    cluster, user = _read(path, context)
    base, server = path.parent, cluster["server"].rstrip("/")
    source = _token_source(user, base, clock)
    token = BearerToken(source, clock) if source else None
    if not server.startswith("https:"):
        return ApiServerAccess(server, None, token)

    def trust() -> ssl.SSLContext:
        return _tls(*_read(path, context), base)

    return ApiServerAccess(server, trust(), token, all(_pair(user, base)), trust)


def _read(path: Path, context: str | None) -> tuple[Section, Section]:
    """Reads the cluster and the user of a context. Invalid."""
    try:
        config = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        name = context or config["current-context"]
        chosen = _named(config["contexts"], name)["context"]
        cluster = _named(config["clusters"], chosen["cluster"])["cluster"]
        user = _named(config["users"], chosen["user"])["user"] or {}
        return {**cluster, "server": str(cluster["server"])}, user
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise Invalid(f"kubeconfig {path} is not usable: {error!r}") from error


def _pair(user: dict[str, object], base: Path) -> Pair:
    return _content(user, "client-certificate", base), _content(user, "client-key", base)


def _named(items: list[Section], name: str) -> Section:
    for item in items:
        if item["name"] == name:
            return item
    raise KeyError(name)


def _tls(cluster: dict[str, object], user: dict[str, object], base: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", base)
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _pair(user, base)
    if certificate and key:
        _load_pair(tls, certificate, key)
    return tls


def _load_pair(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Loads a client certificate; the SSL module reads only files, so a temporary one is
    written.
    """
    with tempfile.TemporaryDirectory(prefix="agent-") as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate + b"\n" + key)
        tls.load_cert_chain(pair)


def _content(section: Section, name: str, base: Path) -> bytes | None:
    if inline := section.get(f"{name}-data"):
        return base64.b64decode(inline)
    return (base / section[name]).read_bytes() if section.get(name) else None


def _token_source(user: Section, base: Path, clock: Clock) -> TokenSource | None:
    if plugin := user.get("exec"):
        return _from_plugin(plugin, clock)
    if path := user.get("tokenFile"):
        return _from_file(base / path, clock)
    if not (token := user.get("token")):
        return None

    async def fixed() -> Bearer:
        return token, clock.now() + timedelta(days=1)

    return fixed


def _from_file(path: Path, clock: Clock) -> TokenSource:
    async def read() -> Bearer:
        try:
            return (await asyncio.to_thread(path.read_text)).strip(), clock.now() + _TOKEN_LIFE
        except OSError as error:
            raise Unavailable(f"token file {path} cannot be read: {error.strerror}") from error

    return read


def _from_plugin(plugin: Section, clock: Clock) -> TokenSource:
    environ = {e["name"]: e["value"] for e in plugin.get("env") or ()}
    request = {"apiVersion": _EXEC_API, "kind": "ExecCredential", "spec": {"interactive": False}}
    environ["KUBERNETES_EXEC_INFO"] = orjson.dumps(request).decode()

    async def run() -> Bearer:
        process = await asyncio.create_subprocess_exec(
            plugin["command"],
            *(plugin.get("args") or ()),
            env={**os.environ, **environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise Unavailable(f"{plugin['command']} ended with exit code {process.returncode}")
        return _credential(plugin["command"], output, clock)

    return run


def _credential(command: str, output: bytes, clock: Clock) -> Bearer:
    try:
        status = orjson.loads(output)["status"]
        until = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(until) if until else clock.now() + timedelta(minutes=5)
        return status["token"], expires
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"{command} returned no usable credential") from error
