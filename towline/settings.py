"""Settings of `towline serve`, from flags, environment `TOWLINE_…`, file and defaults.

Flags come first, defaults last. Unknown keys of the file are errors; unknown variables are logged,
because the environment belongs to other programs too. A secret can also come from a file, for
example `TOWLINE_DATABASE_FILE`.
"""

import os
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from controlplane.settings import (
    ApiSettings,
    AuditSettings,
    AuthSettings,
    NotifySettings,
    SecretSettings,
    TraceSettings,
)
from core.errors import Invalid
from core.host_names import hostname, is_below
from core.json_object import JsonMapping, JsonObject, JsonValue
from core.rpc.implementations import GrpcImplementation
from core.trusted_proxies import TrustedProxies
from gitcache.settings import GitCacheSettings, GitSettings
from proxy.settings import ProxySettings
from towline.input_files import read_text

_PREFIX = "TOWLINE_"
_AGENT_PREFIX = "TOWLINE_AGENT_"
_CLIENT_VARIABLES = frozenset({"URL", "TOKEN", "CA_FILE", "TOKEN_FILE", "CONFIG"})


class ServeTarget(StrEnum):
    """Components that a process runs."""

    ALL = "all"
    GITCACHE = "gitcache"
    """One replica of the git cache only; control planes list it in `git.peers.servers`."""


class LogLevel(StrEnum):
    """Minimum level of logged events."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _split_list(items: object) -> object:
    return [item.strip() for item in items.split(",")] if isinstance(items, str) else items


TextList = Annotated[tuple[str, ...], BeforeValidator(_split_list)]
"""Texts, also as one text that is separated by commas."""


class _SettingsGroup(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TlsSettings(_SettingsGroup):
    """Certificate of the listeners; by default issued by Towline's own CA in the data directory."""

    cert: Path | None = None
    key: Path | None = None
    names: TextList = ("localhost", "127.0.0.1")
    """DNS names and IP addresses of this control plane, for the certificate of its own CA."""


class ServeSettings(_SettingsGroup):
    """All settings of one control plane process."""

    target: ServeTarget = ServeTarget.ALL
    data: Path = Field(default_factory=lambda: Path.home() / ".local/share/towline")
    """Data directory: embedded store, keys, certificates, clones and bundles."""
    database: SecretStr | None = None
    """`postgresql://…`; default: SQLite in the data directory."""
    listen: str = "127.0.0.1:8443"
    """HTTPS address: API, Kubernetes proxy, console and webhooks."""
    listen_http: str = "127.0.0.1:8080"
    """HTTP address without TLS, for localhost or an ingress; `off` disables it."""
    hosts: TextList = ()
    """Additional host names of this installation; `*` allows all.

    Requests for other hosts than these, those of the certificate and of `auth.public_url` are
    refused."""
    trusted_proxies: TextList = ()
    """Addresses or networks of proxies in front of this control plane, such as an ingress.

    Their `X-Forwarded-For` and `X-Forwarded-Proto` name the address of a client and its scheme, for
    rate limits, the audit log and cookies. Headers of others are ignored."""
    proxy_protocol: TextList = ()
    """Addresses or networks of load balancers that begin each connection with a header of the
    PROXY protocol (version 1 or 2), on the ports for users and agents.

    The header names the address of a client. Connections of these load balancers without a header
    are closed. Headers of others are refused. Excludes the `grpcio` wire."""
    introspection: bool = True
    """Allow members to query the API's schema."""
    listen_agents: str = "127.0.0.1:8444"
    """gRPC address for agents, with TLS."""
    agents_wire: GrpcImplementation = GrpcImplementation.HTTP2
    """Implementation of gRPC: `http2` (built in) or `grpcio` (library; uses more CPU and memory).

    Agents can connect to both."""
    redis: SecretStr | None = None
    """`redis://…` or `rediss://…`, shared by all replicas; default: a single process."""
    listen_peers: str = "127.0.0.1:8445"
    """Address of the git cache for other replicas and control planes, with TLS; only open with
    `--redis` or `--target gitcache`."""
    listen_replicas: str = "127.0.0.1:8446"
    """Address for other replicas of the control plane, with TLS; only open with `--redis`.

    Replicas share the database, Redis and `encryption.key`."""
    replica_address: str | None = None
    """`host:port` that other replicas connect to; default: the address of `listen_replicas`."""
    listen_metrics: str = "127.0.0.1:9090"
    """Address for Prometheus metrics; `off` disables it."""
    log_level: LogLevel = LogLevel.INFO
    drain_seconds: float = Field(10.0, ge=0)
    """Seconds that open requests may continue after SIGTERM; keep it below Kubernetes' 30 s."""
    tls: TlsSettings = TlsSettings()
    git: GitSettings = GitSettings()
    api: ApiSettings = ApiSettings()
    """Limits of the API; see `controlplane.settings`."""
    auth: AuthSettings = AuthSettings()
    """Sign-in; see `controlplane.settings`."""
    audit: AuditSettings = AuditSettings()
    """Retention of the audit log; see `controlplane.settings`."""
    notify: NotifySettings = NotifySettings()
    """Allowed destinations of notifications; see `controlplane.settings`."""
    secrets: SecretSettings = SecretSettings()
    """Sources of encryption keys and secret values; see `controlplane.settings`."""
    traces: TraceSettings = TraceSettings()
    """Export of deployment traces; see `controlplane.settings`."""
    proxy: ProxySettings = ProxySettings()
    """Settings of the Kubernetes proxy; see `proxy.domain.limits` for units."""

    @property
    def proxy_protocol_senders(self) -> TrustedProxies | None:
        """The load balancers that send the PROXY protocol; None without any."""
        return TrustedProxies(self.proxy_protocol) if self.proxy_protocol else None

    @field_validator("trusted_proxies", "proxy_protocol")
    @classmethod
    def _check_networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        try:
            TrustedProxies(networks)
        except Invalid as error:
            raise ValueError(error.message) from None
        return networks

    @model_validator(mode="after")
    def _check_cluster_domain(self) -> "ServeSettings":
        domain = self.proxy.cluster_domain
        public = urlsplit(self.auth.public_url).hostname or ""
        for name in (public, *self.hosts, *self.tls.names):
            if is_below(hostname(name), domain):
                raise ValueError(
                    f"{name} is below proxy.cluster_domain ({domain}), whose names are those of "
                    "clusters: choose another domain for clusters"
                )
        return self

    @model_validator(mode="after")
    def _check_proxy_protocol(self) -> "ServeSettings":
        if self.proxy_protocol and self.agents_wire is GrpcImplementation.GRPCIO:
            raise ValueError("proxy_protocol needs agents_wire http2")
        return self

    @field_validator("data")
    @classmethod
    def _absolute_path(cls, data: Path) -> Path:
        # git runs in other working directories, where a relative path would be wrong.
        return data.expanduser().absolute()


def git_settings(settings: ServeSettings) -> GitCacheSettings:
    """Settings of the git cache, with its folder in the data directory."""
    return GitCacheSettings(data_dir=settings.data / "git", **dict(settings.git))


def load(
    flags: JsonMapping, config: Path | None = None, environ: Mapping[str, str] = os.environ
) -> ServeSettings:
    """Loads the settings from all sources. The message of Invalid names the setting."""
    values = _read_file(config) if config else {}
    set_flags = {name: value for name, value in flags.items() if value is not None}
    for source in (_from_environment(environ), set_flags):
        values = _merge(values, source)
    try:
        return ServeSettings(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        setting = f"setting {name}" if name else "settings"
        raise Invalid(f"{setting}: {first['msg'].lower()}") from None


def _read_file(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_text(path, "config"))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> JsonObject:
    """Reads `TOWLINE_LISTEN_HTTP=…`, or with groups `TOWLINE_GIT__POLL__SECONDS=…`.

    A name that ends in `_FILE` gives the path of a file with the value.
    """
    values: JsonObject = {}
    for variable, value in environ.items():
        if not variable.startswith(_PREFIX) or not _is_setting(variable):
            continue
        if variable.endswith("_FILE"):
            value = _read_secret_file(variable, Path(value))
        nested: JsonValue = value
        for part in reversed(_path_of(variable)):
            nested = {part: nested}
        values = _merge(values, nested)
    return values


def unknown_variables(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Names of `TOWLINE_…` variables that no program of Towline reads."""
    others = tuple(f"{_PREFIX}{name}" for name in _CLIENT_VARIABLES)
    return sorted(
        variable
        for variable in environ
        if variable.startswith(_PREFIX)
        and variable not in others
        and not variable.startswith(_AGENT_PREFIX)
        and not _is_setting(variable)
    )


def _path_of(variable: str) -> list[str]:
    """Path of a setting, such as `git`, `poll`, `seconds`."""
    return variable.removeprefix(_PREFIX).removesuffix("_FILE").lower().split("__")


def _is_setting(variable: str) -> bool:
    model: Any = ServeSettings
    for part in _path_of(variable):
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return True
        if part not in model.model_fields:
            return False
        model = model.model_fields[part].annotation
    return True


def _read_secret_file(variable: str, path: Path) -> str:
    return read_text(path, variable).strip()


def _merge(low: JsonMapping, high: JsonMapping) -> JsonObject:
    """Merges nested mappings; values of `high` win."""
    both = {**low, **high}
    for name in low.keys() & high.keys():
        if isinstance(low[name], Mapping) and isinstance(high[name], Mapping):
            both[name] = _merge(low[name], high[name])
    return both
