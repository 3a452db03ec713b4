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
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import yaml

from core.errors import Invalid, Unavailable
from core.http1.pool import ServerAddress
from core.json_object import JsonObject
from core.remotes import is_loopback_host
from core.runtime.atomic_files import write_atomically
from core.runtime.clock import Clock
from core.runtime.trust_files import file_versions, system_authorities
from core.tls import client_context
from syncagent.kube.server_tls import RotatedTls, TlsSource

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_LIFE = timedelta(seconds=60)
_PLUGIN_LIFE = timedelta(minutes=5)
_EXEC_API = "client.authentication.k8s.io/v1"
_FILES = ("certificate-authority", "client-certificate", "client-key")
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")

Bearer = tuple[str, datetime]
TokenSource = Callable[[], Awaitable[Bearer]]
Pair = tuple[bytes | None, bytes | None]
Section = JsonObject
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
    `certified`: `tls` has a client certificate, or gets one from an exec plugin, so every request
    over it has its permissions. `anonymous_tls` trusts the same authorities and has no certificate.
    `kubeconfig_token` is in the kubeconfig itself. `server_name`: the name in the server's
    certificate, if it is not the host. `proxy`: URL of the proxy to the server, such as
    `http://proxy:3128`.
    """

    server: str
    tls: TlsSource | None
    token: BearerToken | None = None
    certified: bool = False
    anonymous_tls: TlsSource | None = None
    kubeconfig_token: "KubeconfigToken | None" = None
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)

    @property
    def address(self) -> ServerAddress:
        """The address without its path. Invalid: the server has no host."""
        server = urlsplit(self.server)
        if server.hostname is None:
            raise Invalid(f"the kubeconfig's server {self.server!r} has no host")
        port = server.port or (443 if server.scheme == "https" else 80)
        return ServerAddress(server.hostname, port, self.tls, self.server_name, self.proxy)

    @property
    def prefix(self) -> str:
        """The path of the server, before all paths; empty: none."""
        return urlsplit(self.server).path.rstrip("/")

    async def bearer(self) -> str:
        """Returns the token for a request; empty: none."""
        return await self.token.get() if self.token else ""

    async def headers(self) -> dict[str, str]:
        """Returns the headers that authenticate a request."""
        token = await self.bearer()
        return {"Authorization": f"Bearer {token}"} if token else {}


def in_cluster(
    clock: Clock, environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> ApiServerAccess:
    """Reads the access from this pod's service account. Invalid: not in a cluster."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (folder / "token").exists():
        raise Invalid("not inside a cluster: specify a kubeconfig")
    address = f"[{host}]" if ":" in host else host

    authority = folder / "ca.crt"
    tls = RotatedTls(lambda: client_context(file=authority), lambda: [authority], clock).context
    token = BearerToken(_from_file(folder / "token", clock), clock)
    return ApiServerAccess(f"https://{address}:{port}", tls, token, anonymous_tls=tls)


def from_kubeconfig(path: Path, context: str | None, clock: Clock) -> ApiServerAccess:
    """Reads the access from a kubeconfig. Invalid: the file or the context is not usable."""
    refuse_impersonation(path, context)
    cluster, user = _read_context(path, context)
    base, server = path.parent, cluster["server"].rstrip("/")
    plugin = ExecPlugin(user["exec"], base, clock) if user.get("exec") else None
    own = None if plugin or user.get("tokenFile") else _own_token(path, context, user, clock)
    source = plugin.run if plugin else own.get if own else _token_source(user, base, clock)
    token = BearerToken(source, clock) if source else None
    name, proxy = cluster.get("tls-server-name"), _proxy_url(path, cluster)
    access = ApiServerAccess(
        server, None, token, kubeconfig_token=own, server_name=name, proxy=proxy
    )
    if not server.startswith("https:"):
        if not is_loopback_host(urlsplit(server).hostname or ""):
            raise Invalid(f"kubeconfig {path}: the server {server} has no TLS: use https")
        return access
    return replace(
        access,
        tls=_rotated_tls(path, context, clock, plugin),
        certified=plugin is not None or all(_client_certificate(user, base)),
        anonymous_tls=_rotated_tls(path, context, clock, None, with_certificate=False),
    )


def refuse_impersonation(path: Path, context: str | None) -> None:
    """Raises Invalid if the user of a kubeconfig's context acts as another one."""
    _, user = _read_context(path, context)
    if given := [name for name in _IMPERSONATION if user.get(name)]:
        raise Invalid(
            f"kubeconfig {path}: its user impersonates another one ({', '.join(given)}), which "
            "Towline does not support; use a context whose own user has the permissions"
        )


def _proxy_url(path: Path, cluster: Section) -> str | None:
    """Returns the URL of the proxy. Invalid: it is no HTTP proxy; the URL may have a password."""
    proxy = cluster.get("proxy-url")
    if proxy and not str(proxy).startswith("http://"):
        raise Invalid(
            f"kubeconfig {path}: proxy-url must begin with http://; the agent uses no "
            f"{str(proxy).partition(':')[0]} proxies"
        )
    return proxy or None


def _rotated_tls(
    path: Path,
    context: str | None,
    clock: Clock,
    plugin: "ExecPlugin | None",
    *,
    with_certificate: bool = True,
) -> TlsSource:
    """Builds TLS from the present content of a kubeconfig, its files and its plugin."""
    files: set[Path] = set()

    def load() -> ssl.SSLContext:
        cluster, user = _read_context(path, context)
        sections = (cluster, user) if with_certificate else (cluster,)
        named = {path.parent / s[name] for s in sections for name in _FILES if s.get(name)}
        files.clear()
        files.update({path} | named | set(system_authorities()))
        tls = _cluster_tls(cluster, path.parent)
        certificate, key = _client_certificate(user, path.parent)
        if with_certificate and certificate and key:
            _load_pair(tls, certificate, key)
        if plugin is not None and plugin.pair is not None:
            _load_pair(tls, *plugin.pair)
        return tls

    def pair() -> object:
        return plugin.pair if plugin else None

    return RotatedTls(load, lambda: sorted(files), clock, pair).context


def _read_context(path: Path, context: str | None) -> tuple[Section, Section]:
    """Reads the cluster and the user of a context. Invalid."""
    try:
        config = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        name = context or config["current-context"]
        selected = _find_section(config, "context", name)
        cluster = _find_section(config, "cluster", selected["cluster"])
        user = _find_section(config, "user", selected["user"])
        return {**cluster, "server": str(cluster["server"])}, user
    except OSError as error:
        raise Invalid(f"kubeconfig {path} is not usable: {error.strerror}") from error
    except KeyError as error:
        raise Invalid(f"kubeconfig {path} is not usable: it has no {error.args[0]}") from error
    except (ValueError, yaml.YAMLError, TypeError) as error:
        raise Invalid(f"kubeconfig {path} is not usable: {error}") from error


def _client_certificate(user: dict[str, object], base: Path) -> Pair:
    return _inline_or_file(user, "client-certificate", base), _inline_or_file(
        user, "client-key", base
    )


def _find_section(config: Section, kind: str, name: str) -> Section:
    items = config.get(f"{kind}s") or []
    for item in items:
        if item["name"] == name:
            return item[kind] or {}
    known = ", ".join(item["name"] for item in items) or "none"
    raise KeyError(f"{kind} {name!r}; known: {known}")


def _cluster_tls(cluster: dict[str, object], base: Path) -> ssl.SSLContext:
    authority = _inline_or_file(cluster, "certificate-authority", base)
    tls = client_context(text=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        raise Invalid(
            "the kubeconfig turns off the verification of TLS certificates "
            "(insecure-skip-tls-verify): set certificate-authority instead"
        )
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


def _inline_or_file(section: Section, name: str, base: Path) -> bytes | None:
    if inline := section.get(f"{name}-data"):
        return base64.b64decode(inline)
    return (base / section[name]).read_bytes() if section.get(name) else None


def _token_source(user: Section, base: Path, clock: Clock) -> TokenSource | None:
    path = user.get("tokenFile")
    return _from_file(base / path, clock) if path else None


def _own_token(
    path: Path, context: str | None, user: Section, clock: Clock
) -> "KubeconfigToken | None":
    return KubeconfigToken(path, context, clock) if user.get("token") else None


def _from_file(path: Path, clock: Clock) -> TokenSource:
    async def read() -> Bearer:
        try:
            return (await asyncio.to_thread(path.read_text)).strip(), clock.now() + _TOKEN_LIFE
        except OSError as error:
            raise Unavailable(f"token file {path} cannot be read: {error.strerror}") from error

    return read


class KubeconfigToken:
    """The token in a kubeconfig itself; a new one in the file is used without a restart."""

    def __init__(self, path: Path, context: str | None, clock: Clock) -> None:
        self._path, self._context = path, context
        self._clock = clock
        self._version: object = None
        self._token = ""

    @property
    def current(self) -> str:
        """The present token. Invalid: the kubeconfig is not usable any more."""
        version = file_versions([self._path])
        if version != self._version:
            _, user = _read_context(self._path, self._context)
            self._token, self._version = str(user.get("token") or ""), version
        return self._token

    async def get(self) -> Bearer:
        """Implements `TokenSource`."""
        return self.current, self._clock.now() + _TOKEN_LIFE

    def replace(self, new: str) -> None:
        """Writes a new token over the present one; the rest of the file stays as it is.

        OSError: the file cannot be written.
        """
        text = self._path.read_text().replace(self.current, new)
        write_atomically(self._path.resolve(), text.encode())


class ExecPlugin:
    """A program that returns the credentials: a token, a client certificate, or both.
    `pair`: the present certificate and its key.
    """

    def __init__(self, plugin: Section, base: Path, clock: Clock) -> None:
        command = str(plugin["command"])
        # Like kubectl: a path is relative to the kubeconfig, a mere name is searched in PATH.
        self._command = str(base / command) if "/" in command else command
        self._arguments = [str(argument) for argument in plugin.get("args") or ()]
        self._environ = {e["name"]: e["value"] for e in plugin.get("env") or ()}
        request = {
            "apiVersion": plugin.get("apiVersion") or _EXEC_API,
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
        self._environ["KUBERNETES_EXEC_INFO"] = orjson.dumps(request).decode()
        self._clock = clock
        self.pair: tuple[bytes, bytes] | None = None

    async def run(self) -> Bearer:
        """Runs the program. Returns its token, empty if it returned only a certificate.
        Unavailable: it failed, or returned no credential.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._arguments,
                env={**os.environ, **self._environ},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise Unavailable(f"the exec plugin {self._command} cannot run: {why}") from error
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise Unavailable(f"{self._command} ended with exit code {process.returncode}")
        try:
            return self._parse_credential(output)
        except (ValueError, KeyError, TypeError, AttributeError, ssl.SSLError) as error:
            raise Unavailable(f"{self._command} returned no usable credential") from error

    def _parse_credential(self, output: bytes) -> Bearer:
        status = orjson.loads(output)["status"]
        expiry = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(expiry) if expiry else self._clock.now() + _PLUGIN_LIFE
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if not certificate or not key:
            return status["token"], expires
        self.pair = certificate.encode(), key.encode()
        return status.get("token") or "", expires
