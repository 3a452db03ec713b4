"""Settings of the control plane; read by the composition only."""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class OidcSettings(BaseModel):
    """An identity provider by which people sign in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$")
    """What it is called in URLs."""
    issuer: str
    """Its URL, exactly as its tokens say."""
    client_id: str
    client_secret: SecretStr = SecretStr("")
    title: str = ""
    """What the button says."""
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    groups_claim: str = "groups"
    required_groups: tuple[str, ...] = ()
    """Who is in none of them is not let in."""
    audience: str = ""
    """Of ID tokens sent as bearer; the client id without."""
    scim_account: str = ""
    """The service account whose tokens push people and groups of this provider, by SCIM."""


class AuthSettings(BaseModel):
    """How people sign in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    public_url: str = ""
    """The URL under which browsers know this installation; without it, what they ask for."""
    local: bool = True
    """Whether people may sign in by a password that is kept here."""
    oidc: tuple[OidcSettings, ...] = ()
    """Identity providers."""
    oidc_ca_file: Path | None = None
    """PEM file to trust instead of the system's authorities when asking identity providers."""


class AuditSettings(BaseModel):
    """For how many days rows of the audit trail are kept, by kind; 0: for ever."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    change_days: int = Field(0, ge=0)
    """What was changed."""
    sign_in_days: int = Field(400, ge=0)
    """Sign-ins and the use of tokens."""
    request_days: int = Field(90, ge=0)
    """Requests to clusters."""
    agent_days: int = Field(90, ge=0)
    """What agents did."""


class NotifySettings(BaseModel):
    """Where notifications may be sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    private_networks: tuple[str, ...] = ()
    """Networks (CIDR) that may be reached although they are not public."""
    ca_file: Path | None = None
    """PEM file to trust instead of the system's authorities."""


class TraceSettings(BaseModel):
    """Where traces of deployments are told, by OTLP over HTTP."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = ""
    """`https://collector:4318/v1/traces`; without it nothing is told."""
    authorization: SecretStr = SecretStr("")
    """What is sent as the `Authorization` header."""
    ca_file: Path | None = None
    """PEM file to trust instead of the public authorities."""


class KekKind(StrEnum):
    """Where the key-encryption key is."""

    FILE = "file"
    ENVIRONMENT = "environment"
    AGE = "age"
    VAULT = "vault"
    COMMAND = "command"
    HTTP = "http"


class KekSettings(BaseModel):
    """The key that wraps the keys that seal what the store holds sealed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: KekKind = KekKind.FILE
    path: Path | None = None
    """FILE: 32 bytes, `encryption.key` in the data directory without. AGE: an identity file."""
    value: SecretStr = SecretStr("")
    """ENVIRONMENT: 32 bytes in base64."""
    url: str = ""
    """VAULT and HTTP: where it is asked."""
    token: SecretStr = SecretStr("")
    """VAULT and HTTP: what signs in there."""
    key: str = ""
    """VAULT: the name of the transit key."""
    mount: str = "transit"
    namespace: str = ""
    command: tuple[str, ...] = ()
    """COMMAND: what is run, with its arguments."""
    ca_file: Path | None = None
    """PEM file to trust instead of the system's authorities."""


class VaultSettings(BaseModel):
    """A Vault whose KV engine (version 2) holds values of secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$")
    url: str
    token: SecretStr
    namespace: str = ""
    mount: str = "secret"
    prefix: str = "{project}"
    """What secrets may read is below this path; `{project}` is the id of their project."""
    ca_file: Path | None = None


class SecretSettings(BaseModel):
    """Where keys and values of secrets come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kek: KekSettings = KekSettings()
    previous: tuple[KekSettings, ...] = ()
    """Keys that were `kek` before: what they wrapped is wrapped anew at start."""
    vaults: tuple[VaultSettings, ...] = ()
    environment: str = ""
    """What names of variables that secrets may read begin with; without it, none may be read."""


class ApiSettings(BaseModel):
    """What callers of the API may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests_a_minute: int = Field(0, ge=0, le=6_000_000)
    """Of one user, or of one address that does not sign in, over all replicas; 0: no limit.
    Counted in windows of ten seconds."""


class ControlPlaneSettings(BaseModel):
    """Where state is kept, and the key that seals secrets in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path
    """Holds the embedded store and the encryption key."""
    agents_port: int = 8444
    """Where agents connect; told to those who add clusters."""
    introspection: bool = True
    """Whether members may ask the API for its schema."""
    signing_key: str = ""
    """The public key (PEM) of what signs renders; told to those who set up agents."""
    database: SecretStr | None = None
    """`postgresql://user:password@host/name`; without it, SQLite in the data directory."""
    redis: SecretStr | None = None
    """`redis://…` by which several processes wake each other; without it, this one is alone."""
    api: ApiSettings = ApiSettings()
    auth: AuthSettings = AuthSettings()
    audit: AuditSettings = AuditSettings()
    notify: NotifySettings = NotifySettings()
    secrets: SecretSettings = SecretSettings()
    traces: TraceSettings = TraceSettings()
