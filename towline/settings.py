"""Settings of `towline serve`: flag, then environment `TOWLINE_…`, then file, then default.

Unknown keys are refused. A secret may also come from a file: `TOWLINE_DATABASE_FILE`.
"""

import os
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from controlplane.settings import (
    ApiSettings,
    AuditSettings,
    AuthSettings,
    NotifySettings,
    SecretSettings,
    TraceSettings,
)
from fleet.errors import Invalid
from fleet.rpc.wires import Wire
from gitcache.settings import (
    FetchSettings,
    PeerSettings,
    PollSettings,
    RenderSettings,
    StoreSettings,
)
from proxy.settings import ProxySettings

_PREFIX = "TOWLINE_"
_AGENT_PREFIX = "AGENT_"
_CLIENT_VARIABLES = frozenset({"URL", "TOKEN", "CA_FILE", "TOKEN_FILE", "CONFIG"})


class Target(StrEnum):
    """Which parts a process runs."""

    ALL = "all"
    GITCACHE = "gitcache"
    """One replica of the git cache only; control planes name it in `git.peers.servers`."""


class LogLevel(StrEnum):
    """The least important events that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TlsSettings(_Group):
    """Certificates of the listeners; without them, an own authority in the data directory."""

    cert: Path | None = None
    key: Path | None = None
    names: tuple[str, ...] = ("localhost", "127.0.0.1")
    """Names and addresses under which clients and agents reach this control plane; the own
    authority puts them into its certificate."""

    @field_validator("names", mode="before")
    @classmethod
    def _listed(cls, names: object) -> object:
        return [one.strip() for one in names.split(",")] if isinstance(names, str) else names


class GitSettings(_Group):
    """The git cache; see `gitcache.settings` for units and reasons."""

    poll: PollSettings = PollSettings()
    fetch: FetchSettings = FetchSettings()
    render: RenderSettings = RenderSettings()
    store: StoreSettings = StoreSettings()
    peers: PeerSettings = PeerSettings()


class ServeSettings(_Group):
    """Everything of one control plane process."""

    target: Target = Target.ALL
    data: Path = Field(default_factory=lambda: Path.home() / ".local/share/towline")
    """Holds the embedded store, keys, certificates, clones and bundles."""
    database: SecretStr | None = None
    """`postgresql://…`; without it, SQLite in the data directory."""
    listen: str = "127.0.0.1:8443"
    """HTTPS: API, Kubernetes, console, webhooks."""
    listen_http: str = "127.0.0.1:8080"
    """The same without TLS, for this machine or behind an ingress; `off` disables it."""
    hosts: tuple[str, ...] = ()
    """Further names under which clients reach this installation, beside those of its certificate
    and of `auth.public_url`; requests to other names are refused. `*` takes all."""
    introspection: bool = True
    """Whether members may ask the API for its schema."""
    listen_agents: str = "127.0.0.1:8444"
    """gRPC over TLS, for agents."""
    agents_wire: Wire = Wire.HTTP2
    """Who speaks it: `http2`, this program's own, or `grpcio`, the library, which costs
    more. Agents of either kind reach both."""
    redis: SecretStr | None = None
    """`redis://…` or `rediss://…`, which replicas of the control plane and of the git cache share;
    without it, this process is alone."""
    listen_peers: str = "127.0.0.1:8445"
    """TLS between replicas of the git cache and control planes; open only with `--redis` or
    `--target gitcache`."""
    listen_replicas: str = "127.0.0.1:8446"
    """TLS between replicas of the control plane, which share the database, Redis and
    `encryption.key`; open only with `--redis`."""
    replica_address: str | None = None
    """`host:port` under which other replicas reach `listen_replicas`; without it, where that
    listens."""
    listen_metrics: str = "127.0.0.1:9090"
    """Prometheus metrics; `off` disables it."""
    log_level: LogLevel = LogLevel.INFO
    drain_seconds: float = Field(10.0, ge=0)
    """How long open requests may go on after SIGTERM; below the 30 s that Kubernetes gives."""
    tls: TlsSettings = TlsSettings()
    git: GitSettings = GitSettings()
    api: ApiSettings = ApiSettings()
    """What callers of the API may ask for; see `controlplane.settings`."""
    auth: AuthSettings = AuthSettings()
    """How people sign in; see `controlplane.settings`."""
    audit: AuditSettings = AuditSettings()
    """How long the audit trail is kept; see `controlplane.settings`."""
    notify: NotifySettings = NotifySettings()
    """Where notifications may be sent; see `controlplane.settings`."""
    secrets: SecretSettings = SecretSettings()
    """Where keys and values of secrets come from; see `controlplane.settings`."""
    traces: TraceSettings = TraceSettings()
    """Where traces of deployments are told; see `controlplane.settings`."""
    proxy: ProxySettings = ProxySettings()
    """The Kubernetes door; see `proxy.domain.limits` for units."""

    @field_validator("hosts", mode="before")
    @classmethod
    def _listed(cls, hosts: object) -> object:
        return [one.strip() for one in hosts.split(",")] if isinstance(hosts, str) else hosts

    @field_validator("data")
    @classmethod
    def _whole_path(cls, data: Path) -> Path:
        # git runs in folders of its own, where a relative path would mean another place.
        return data.expanduser().absolute()


def load(
    flags: Mapping[str, Any], config: Path | None = None, environ: Mapping[str, str] = os.environ
) -> ServeSettings:
    """The settings from all sources. Invalid: names the setting and what is wrong."""
    values = _read_file(config) if config else {}
    given = {name: value for name, value in flags.items() if value is not None}
    for more in (_from_environment(environ), given):
        values = _merged(values, more)
    try:
        return ServeSettings(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"setting {name}: {first['msg'].lower()}") from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """`TOWLINE_LISTEN_HTTP=…`, in groups `TOWLINE_GIT__POLL__SECONDS=…`.

    A name that ends in `_FILE` gives a file that holds the value.
    """
    values: dict[str, Any] = {}
    for variable, value in environ.items():
        name = variable.removeprefix(_PREFIX)
        if name == variable or name in _CLIENT_VARIABLES or name.startswith(_AGENT_PREFIX):
            continue
        if name.endswith("_FILE"):
            name, value = name.removesuffix("_FILE"), _secret(variable, Path(value))
        nested: Any = value
        for part in reversed(name.lower().split("__")):
            nested = {part: nested}
        values = _merged(values, nested)
    return values


def _secret(variable: str, path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Invalid(f"{variable}: {path} cannot be read: {why}") from None


def _merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Both, with what `high` says where both speak of the same setting."""
    both = {**low, **high}
    for name in low.keys() & high.keys():
        if isinstance(low[name], Mapping) and isinstance(high[name], Mapping):
            both[name] = _merged(low[name], high[name])
    return both
