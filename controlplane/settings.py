"""Settings of the control plane; only `compose` reads them."""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SecretFiles(_Group):
    """Settings whose secrets can come from files: `client_secret_file` is the path of the file with
    `client_secret`. Environment variables cannot name the items of a list."""

    @model_validator(mode="before")
    @classmethod
    def _read_secrets(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        for name, field in cls.model_fields.items():
            path = values.pop(f"{name}_file", None) if field.annotation is SecretStr else None
            if path is None:
                continue
            if name in values:
                raise ValueError(f"set either {name} or {name}_file")
            values[name] = _read_secret(f"{name}_file", Path(str(path)))
        return values


def _read_secret(name: str, path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"{name}: cannot read {path}: {reason}") from None


class OidcSettings(SecretFiles):
    """An identity provider for sign-in."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$")
    """Name of the provider in URLs."""
    issuer: str
    """URL of the provider, exactly as in its tokens."""
    client_id: str
    client_secret: SecretStr = SecretStr("")
    title: str = ""
    """Label of the sign-in button."""
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    groups_claim: str = "groups"
    trust_email: bool = False
    """Accepts addresses of tokens without the claim `email_verified`, such as those of Entra ID.
    Set it only if users cannot choose their address at the provider."""
    required_groups: tuple[str, ...] = ()
    """Groups of which a user needs at least one to sign in. Empty: no restriction."""
    audience: str = ""
    """Audience of ID tokens that are sent as bearer tokens. Default: the client id."""
    scim_account: str = ""
    """Service account whose tokens push users and groups of this provider through SCIM."""


class AuthSettings(_Group):
    """Settings of user sign-in."""

    public_url: str = ""
    """URL under which browsers reach this installation. Default: the URL of each request."""
    local: bool = True
    """Enables sign-in with a password that is stored here."""
    oidc: tuple[OidcSettings, ...] = ()
    """Identity providers."""
    oidc_ca_file: Path | None = None
    """PEM file with the certificate authorities for identity providers, instead of the system's."""
    open_projects: bool = False
    """Gives new projects without a fence one that allows everything, for clients that know no
    fences. By default they allow nothing.
    """


class AuditSettings(_Group):
    """Retention of audit rows in days, by kind; 0: forever."""

    change_days: int = Field(0, ge=0)
    """Changes."""
    sign_in_days: int = Field(400, ge=0)
    """Sign-ins and uses of tokens."""
    request_days: int = Field(90, ge=0)
    """Requests to clusters."""
    agent_days: int = Field(90, ge=0)
    """Actions of agents."""


class NotifySettings(_Group):
    """Network limits of notifications."""

    private_networks: tuple[str, ...] = ()
    """Private networks (CIDR) that notifications may reach."""
    ca_file: Path | None = None
    """PEM file with the trusted certificate authorities, instead of the system's."""


class TraceSettings(SecretFiles):
    """Export of deployment traces with OTLP over HTTP."""

    url: str = ""
    """URL such as `https://collector:4318/v1/traces`. Without it no traces are exported."""
    authorization: SecretStr = SecretStr("")
    """Value of the `Authorization` header."""
    ca_file: Path | None = None
    """PEM file with the trusted certificate authorities, instead of the public ones."""


class KekKind(StrEnum):
    """Source of the key-encryption key."""

    FILE = "file"
    ENVIRONMENT = "environment"
    AGE = "age"
    VAULT = "vault"
    COMMAND = "command"
    HTTP = "http"


class KekSettings(SecretFiles):
    """The key-encryption key: it wraps the data keys that encrypt secrets in the store."""

    kind: KekKind = KekKind.FILE
    path: Path | None = None
    """FILE: file of 32 bytes; default `encryption.key` in the data directory. AGE: an identity
    file.
    """
    value: SecretStr = SecretStr("")
    """ENVIRONMENT: 32 bytes in base64."""
    url: str = ""
    """VAULT and HTTP: URL of the service."""
    token: SecretStr = SecretStr("")
    """VAULT and HTTP: token for the service."""
    key: str = ""
    """VAULT: name of the transit key."""
    mount: str = "transit"
    namespace: str = ""
    command: tuple[str, ...] = ()
    """COMMAND: command with its arguments."""
    ca_file: Path | None = None
    """PEM file with the trusted certificate authorities, instead of the system's."""


class VaultSettings(SecretFiles):
    """A Vault whose KV engine (version 2) holds values of secrets."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$")
    url: str
    token: SecretStr
    namespace: str = ""
    mount: str = "secret"
    prefix: str = "{project}"
    """Path below which secrets can be read; `{project}` is replaced by the id of their project."""
    ca_file: Path | None = None


class SecretSettings(_Group):
    """Sources of keys and of secret values."""

    kek: KekSettings = KekSettings()
    previous: tuple[KekSettings, ...] = ()
    """Earlier values of `kek`: at start, the keys that they wrapped are wrapped with `kek`."""
    vaults: tuple[VaultSettings, ...] = ()
    environment: str = ""
    """Required prefix of environment variables that secrets may read. Without it none can be read.
    """


class ApiSettings(_Group):
    """Limits of API callers."""

    requests_per_minute: int = Field(0, ge=0, le=6_000_000)
    """Maximum API requests per minute of one user, or of one unauthenticated address, over all
    replicas; 0: no limit. Counted in windows of ten seconds.
    """


class ControlPlaneSettings(_Group):
    """Settings of the control plane: data directory, store, keys, and network addresses."""

    data_dir: Path
    """Data directory with the embedded store and the encryption key."""
    agents_port: int = 8444
    """Port for agents; shown in the installation instructions of clusters."""
    cluster_domain: str = ""
    """Domain for addresses of clusters by host name; shown to clients. Empty: there is none."""
    introspection: bool = True
    """Lets signed-in users query the API's schema (introspection)."""
    database: SecretStr | None = None
    """`postgresql://user:password@host/name`. Default: SQLite in the data directory."""
    redis: SecretStr | None = None
    """`redis://…`, through which several replicas wake each other. Default: a single replica."""
    api: ApiSettings = ApiSettings()
    auth: AuthSettings = AuthSettings()
    audit: AuditSettings = AuditSettings()
    notify: NotifySettings = NotifySettings()
    secrets: SecretSettings = SecretSettings()
    traces: TraceSettings = TraceSettings()
