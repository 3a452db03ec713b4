"""Settings of the control plane; read by the composition only."""

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
    auth: AuthSettings = AuthSettings()
    audit: AuditSettings = AuditSettings()
    notify: NotifySettings = NotifySettings()
