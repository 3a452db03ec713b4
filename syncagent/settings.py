"""Settings of the agent; unknown ones are refused.

Read from `TOWLINE_AGENT_<GROUP>_<NAME>`, a secret also from the file named by `..._FILE`. Plain
dataclasses: the agent is to be small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fleet.errors import Invalid
from fleet.rpc.wires import Wire

PREFIX = "TOWLINE_AGENT_"


@dataclass(frozen=True, slots=True)
class HubSettings:
    """The control plane.

    `address`: https://host:port of the agents' listener, or wss://host[:port] of the HTTPS one,
    which then carries it in a WebSocket; http:// and ws:// only where nobody listens in. Both ways
    go through the proxy that HTTPS_PROXY names, unless NO_PROXY lists the host. `token`: the deploy
    token. `ca_file`: PEM to trust instead of the public authorities. `server_name`: the name in
    its certificate, if not the host. `wire`: `http2`, or `grpcio` to speak gRPC by its own library.
    """

    address: str
    token: str = field(repr=False)
    ca_file: Path | None = None
    server_name: str | None = None
    wire: Wire = Wire.HTTP2


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The cluster. `kubeconfig`: none means the pod's service account. `context`: none means
    the current one. `concurrency`: requests at once. `passthrough`: users may bring tokens of the
    API server's own issuer, which the agent then hands on as they are. `impersonator`:
    `namespace:name` of the service account as which users' requests are sent; empty: the agent's
    own."""

    kubeconfig: Path | None = None
    context: str | None = None
    concurrency: int = 16
    passthrough: bool = False
    impersonator: str = ""


@dataclass(frozen=True, slots=True)
class StateSettings:
    """`directory`: where desired state, bundles and unsent reports are kept."""

    directory: Path = Path("/var/lib/towline-agent")


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """What the control plane's git cache may reach through this cluster; nothing unless said.

    `allow`: `host:port` with commas between; `*.example.org:443` has all hosts below it.
    """

    allow: str = ""


@dataclass(frozen=True, slots=True)
class AutonomySettings:
    """What this cluster decides by itself; the control plane cannot widen it.

    `kinds`: what is written at all, `Kind.group` with commas between (`Deployment.apps,Secret`,
    `*.apps` for a whole group); empty: all. `namespaces`: where; empty: everywhere.
    `trusted_keys`: file with the public keys (PEM) whose signature a bundle needs; none: unsigned
    bundles are taken. `sources`: of which repository, and folder in it, the signed bundle of a
    namespace's services must be: `shop=https://git/shop#deploy`, with commas between, `*` for
    every namespace; empty: any. `jobs`: whether jobs of the control plane run here.
    `unsigned_jobs`: also where keys are trusted, though nobody signs jobs.

    Where this cluster's services are defined; with any of these the agent is autonomous and the
    control plane defines none. `services`: folder of files. `configmaps`: namespace of ConfigMaps
    labelled `towline.dev/services`. `repository`, `ref`, `folder`: such ConfigMaps in git.
    """

    kinds: str = ""
    namespaces: str = ""
    trusted_keys: Path | None = None
    sources: str = ""
    jobs: bool = True
    unsigned_jobs: bool = False
    services: Path | None = None
    configmaps: str = ""
    repository: str = ""
    ref: str = "main"
    folder: str = ""

    @property
    def defines(self) -> bool:
        """Whether the cluster defines its services itself."""
        return bool(self.services or self.configmaps or self.repository)


@dataclass(frozen=True, slots=True)
class GitSettings:
    """How the agent itself reads repositories: of services that this cluster defines, and of what
    it is asked to render.

    `credentials`: folder of YAML files, such as a mounted Secret: each has the `url` of a
    repository, or what several URLs begin with, and how to sign in there. `poll_seconds`: how
    often servers are asked. `renders`: whether it renders what the control plane asks it to, for
    its own services or for those of other clusters.
    """

    credentials: Path | None = None
    poll_seconds: int = 15
    renders: bool = False


@dataclass(frozen=True, slots=True)
class SecretsSettings:
    """`age_keys`: file of age identities, such as of a mounted Secret, which open values that SOPS
    has encrypted in git and the control plane cannot open."""

    age_keys: Path | None = None


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """`listen`: host:port of /healthz, /readyz and /metrics; empty: none."""

    listen: str = ""


@dataclass(frozen=True, slots=True)
class UpgradeSettings:
    """The agent's own place, if the control plane may replace it there by a newer version.

    `namespace`, `deployment`: where it runs. `images`: what may replace it, image names without
    tag with commas between; empty: nothing.
    """

    namespace: str = ""
    deployment: str = ""
    images: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of an agent."""

    hub: HubSettings
    kubernetes: KubernetesSettings = KubernetesSettings()
    state: StateSettings = StateSettings()
    egress: EgressSettings = EgressSettings()
    autonomy: AutonomySettings = AutonomySettings()
    health: HealthSettings = HealthSettings()
    upgrade: UpgradeSettings = UpgradeSettings()
    git: GitSettings = GitSettings()
    secrets: SecretsSettings = SecretsSettings()


_TRUTHS = {"true": True, "false": False}
_GROUPS: dict[str, Any] = {
    "hub": HubSettings,
    "kubernetes": KubernetesSettings,
    "state": StateSettings,
    "egress": EgressSettings,
    "autonomy": AutonomySettings,
    "health": HealthSettings,
    "upgrade": UpgradeSettings,
    "git": GitSettings,
    "secrets": SecretsSettings,
}


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Settings from environment variables. Invalid: one is unknown, missing or malformed."""
    given: dict[str, dict[str, Any]] = {group: {} for group in _GROUPS}
    for variable, text in environ.items():
        if variable.startswith(PREFIX):
            group, _, name = variable.removeprefix(PREFIX).lower().partition("_")
            name, value = _value(variable, group, name, text)
            given[group][name] = value
    for required in ("address", "token"):
        if not given["hub"].get(required):
            raise Invalid(f"{PREFIX}HUB_{required.upper()} is not set")
    return Settings(**{group: _GROUPS[group](**values) for group, values in given.items()})


def _value(variable: str, group: str, name: str, text: str) -> tuple[str, Any]:
    if (group, name) == ("hub", "token_file"):
        return "token", _read(Path(text)).strip()
    kinds = {f.name: str(f.type) for f in fields(_GROUPS[group])} if group in _GROUPS else {}
    if name not in kinds:
        raise Invalid(f"{variable} is not a setting of the agent")
    if "Path" in kinds[name]:
        return name, Path(text)
    if "bool" in kinds[name]:
        if text not in _TRUTHS:
            raise Invalid(f"{variable} is neither true nor false")
        return name, _TRUTHS[text]
    if "Wire" in kinds[name]:
        return name, _wire(variable, text)
    if "int" in kinds[name]:
        if not text.isdecimal():
            raise Invalid(f"{variable} is not a whole number")
        return name, int(text)
    return name, text


def _wire(variable: str, text: str) -> Wire:
    try:
        return Wire(text)
    except ValueError:
        raise Invalid(f"{variable} is none of {', '.join(Wire)}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
