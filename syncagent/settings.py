"""Settings of the agent; unknown ones are refused.
They come from `TOWLINE_AGENT_<GROUP>_<NAME>`; a secret may also come from the file named by
`..._FILE`. Plain dataclasses keep the agent small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from core.errors import Invalid
from core.rpc.implementations import GrpcImplementation

PREFIX = "TOWLINE_AGENT_"
_MAX_TOKEN_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Connection to the control plane.
    `signing_key`: fingerprint (`sha256:<hex>`) of the installation's signing key, as joining shows
    it; empty: the agent pins the key of its first connection. `cluster_id`: id of this cluster
    there; empty: as the first connection says.
    `address`: https://host:port of the agents' listener, or wss://host[:port] of the HTTPS listener
    for a connection inside a WebSocket; http:// is for this machine only. Both use
    the proxy in HTTPS_PROXY unless NO_PROXY lists the host. `token`: the deploy token. `ca_file`:
    PEM to trust instead of the public authorities. `server_name`: the name in its certificate, if
    not the host. `wire`: `http2`, or `grpcio` to use the gRPC library. `bootstrap_token`: without a
    deploy token, the agent registers its cluster with this token, and keeps the deploy token that
    it gets. `cluster_name`: name of the cluster then; empty: a name from its UID.
    `credentials_secret`: `namespace/name` of the Secret that keeps the deploy token; empty: a file
    in the state directory.
    """

    address: str
    token: str = field(default="", repr=False)
    ca_file: Path | None = None
    server_name: str | None = None
    wire: GrpcImplementation = GrpcImplementation.HTTP2
    signing_key: str = ""
    cluster_id: str = ""
    bootstrap_token: str = field(default="", repr=False)
    cluster_name: str = ""
    credentials_secret: str = ""


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The cluster.
    `kubeconfig`: path of a kubeconfig; default: the pod's service account. `context`: default: the
    current one. `concurrency`: maximum number of concurrent requests. `passthrough`: users may
    bring tokens of the API server's own issuer, which the agent passes on unchanged.
    `impersonator`: `namespace:name` of the service account that sends users' requests; empty: the
    agent's own. `system_identities`: comma-separated list of `user:` and `group:` names with the
    prefix `system:` that users may impersonate, `*` matches any text; empty: none.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    concurrency: int = 16
    passthrough: bool = False
    impersonator: str = ""
    system_identities: str = ""


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """Proof of identity by users' own ID tokens, which the control plane cannot make. Recommended.
    `issuer`: URL of the OpenID Connect issuer; empty: the control plane's word counts. `audience`:
    comma-separated list of accepted audiences, one of its own for each cluster where possible, and
    never the client ID of the control plane. `keys`: file with the issuer's JSON Web Key Set; none:
    the agent fetches the keys from the issuer. `ca_file`: PEM to trust for the issuer, instead of
    the public authorities. `username_claim`, `username_prefix`, `groups_claim`, `groups_prefix`:
    names that a token gives its user, as in kube-apiserver. `groups`: comma-separated list of
    groups, with their prefix, that tokens may give, `*` matches any text; empty: all.
    `max_age_minutes`: maximum age of a token.
    """

    issuer: str = ""
    audience: str = ""
    keys: Path | None = None
    ca_file: Path | None = None
    username_claim: str = "email"
    username_prefix: str = ""
    groups_claim: str = "groups"
    groups_prefix: str = "oidc:"
    groups: str = ""
    max_age_minutes: int = 60


@dataclass(frozen=True, slots=True)
class FreezeSettings:
    """Freeze of the cluster by a key that is kept offline; the control plane cannot lift it.
    `keys`: file with the public freeze keys (PEM); none: the cluster cannot be frozen so.
    `cluster`: name of this cluster in statements; empty: only statements for all clusters count.
    `configmap`: `namespace/name` of a ConfigMap that may contain statements. `file`: file that may
    contain statements, one a line.
    """

    keys: Path | None = None
    cluster: str = ""
    configmap: str = ""
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class StateSettings:
    """`directory`: folder for desired state, bundles and unsent reports."""

    directory: Path = Path("/var/lib/towline-agent")


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """Egress of the control plane's git cache through this cluster; none by default.
    `allow`: comma-separated list of `host:port`; `*.example.org:443` covers all hosts below it.
    """

    allow: str = ""


@dataclass(frozen=True, slots=True)
class AutonomySettings:
    """Decisions of the cluster itself, which the control plane cannot widen.
    `kinds`: comma-separated list of the kinds that the agent writes, as `Kind.group`
    (`Deployment.apps,Secret`, `*.apps` for a whole group); empty: all. `namespaces`: namespaces
    that the agent writes to; empty: all. `unsigned`: accept bundles and orders without a
    signature. `trusted_keys`: file with more public keys (PEM) that may sign bundles, such as those
    of agents that render; only the key of the installation signs orders. `sources`: repositories,
    and folders in them, that may supply a namespace's signed bundles: `shop=https://git/shop#deploy`,
    comma-separated, `*` for every namespace; empty: any. `values`: with `sources`, digests of API
    values (inline Helm values, parameters of templates) that bundles may contain, comma-separated,
    `*` for any; empty: none. `jobs`: run jobs of the control plane.
    `metrics`: addresses of Prometheus servers for verifications, `namespace/service:port`,
    comma-separated, `*` for any; empty: none. `tenants`: YAML file of the projects that may deploy
    here, with their namespaces, kinds and service account; none: any, within the fences of the
    control plane.
    The other settings name the places that define the cluster's services; with any of them the
    agent is autonomous and the control plane defines no services here. `services`: folder of files.
    `configmaps`: namespace of ConfigMaps with the label `towline.dev/services`. `repository`,
    `ref`, `folder`: such ConfigMaps in git.
    """

    kinds: str = ""
    namespaces: str = ""
    unsigned: bool = False
    trusted_keys: Path | None = None
    sources: str = ""
    values: str = ""
    metrics: str = ""
    jobs: bool = True
    tenants: Path | None = None
    services: Path | None = None
    configmaps: str = ""
    repository: str = ""
    ref: str = "main"
    folder: str = ""

    @property
    def defines(self) -> bool:
        """Reports whether the cluster defines its services itself."""
        return bool(self.services or self.configmaps or self.repository)


@dataclass(frozen=True, slots=True)
class GitAccessSettings:
    """The agent's own access to git, for services that this cluster defines and for render orders.
    `credentials`: folder of YAML files, such as a mounted Secret; each has the `url` of a
    repository, or a prefix of several URLs, and the credentials. `poll_seconds`: interval between
    fetches. `renders`: execute render orders of the control plane, for services of this cluster or
    of others.
    """

    credentials: Path | None = None
    poll_seconds: int = 15
    renders: bool = False


@dataclass(frozen=True, slots=True)
class SecretsSettings:
    """`age_keys`: file of age identities, such as a mounted Secret, for values that SOPS has
    encrypted in git and the control plane cannot decrypt.
    """

    age_keys: Path | None = None


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """`listen`: host:port of /healthz, /readyz and /metrics; empty: none."""

    listen: str = ""


@dataclass(frozen=True, slots=True)
class UpgradeSettings:
    """The agent's own Deployment, if the control plane may upgrade the agent.
    `namespace`, `deployment`: its location. `images`: comma-separated names of images, without tag,
    that may replace it; empty: none.
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
    git: GitAccessSettings = GitAccessSettings()
    secrets: SecretsSettings = SecretsSettings()
    identity: IdentitySettings = IdentitySettings()
    freeze: FreezeSettings = FreezeSettings()


_TRUTHS = {"true": True, "false": False}
_GROUPS: dict[str, Any] = {
    "hub": HubSettings,
    "kubernetes": KubernetesSettings,
    "identity": IdentitySettings,
    "freeze": FreezeSettings,
    "state": StateSettings,
    "egress": EgressSettings,
    "autonomy": AutonomySettings,
    "health": HealthSettings,
    "upgrade": UpgradeSettings,
    "git": GitAccessSettings,
    "secrets": SecretsSettings,
}


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Reads settings from environment variables. Invalid: one is unknown, missing or malformed."""
    given: dict[str, dict[str, object]] = {group: {} for group in _GROUPS}
    for variable, text in environ.items():
        if variable.startswith(PREFIX):
            group, _, name = variable.removeprefix(PREFIX).lower().partition("_")
            name, value = _value(variable, group, name, text)
            given[group][name] = value
    if not given["hub"].get("address"):
        raise Invalid(f"{PREFIX}HUB_ADDRESS is not set")
    if not given["hub"].get("token") and not given["hub"].get("bootstrap_token"):
        raise Invalid(f"{PREFIX}HUB_TOKEN and {PREFIX}HUB_BOOTSTRAP_TOKEN are not set; set one")
    return Settings(**{group: _GROUPS[group](**values) for group, values in given.items()})


_TOKEN_FILES = frozenset({("hub", "token_file"), ("hub", "bootstrap_token_file")})


def split_list(text: str) -> list[str]:
    """Splits the value of a comma-separated setting."""
    return [item.strip() for item in text.split(",") if item.strip()]


def _value(variable: str, group: str, name: str, text: str) -> tuple[str, object]:
    if (group, name) in _TOKEN_FILES:
        return name.removesuffix("_file"), _token(Path(text))
    kinds = {f.name: str(f.type) for f in fields(_GROUPS[group])} if group in _GROUPS else {}
    if name not in kinds:
        raise Invalid(f"{variable} is not a setting of the agent")
    if "Path" in kinds[name]:
        return name, Path(text)
    if "bool" in kinds[name]:
        if text not in _TRUTHS:
            raise Invalid(f"{variable} must be true or false")
        return name, _TRUTHS[text]
    if "GrpcImplementation" in kinds[name]:
        return name, _wire(variable, text)
    if "int" in kinds[name]:
        if not text.isdecimal():
            raise Invalid(f"{variable} is not a whole number")
        return name, int(text)
    return name, text


def _wire(variable: str, text: str) -> GrpcImplementation:
    try:
        return GrpcImplementation(text)
    except ValueError:
        raise Invalid(f"{variable} must be one of {', '.join(GrpcImplementation)}") from None


def _token(path: Path) -> str:
    try:
        with path.open() as file:
            token = file.read(_MAX_TOKEN_CHARACTERS + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Invalid(f"the token file {path} cannot be read: {reason}") from None
    if not token:
        raise Invalid(f"the token file {path} is empty")
    if len(token) > _MAX_TOKEN_CHARACTERS or len(token.split()) > 1:
        raise Invalid(f"the token file {path} holds more than a token")
    return token
