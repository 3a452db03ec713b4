"""Settings of the control plane; read by the composition only."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr


class ControlPlaneSettings(BaseModel):
    """Where state is kept, and the key that seals secrets in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path
    """Holds the embedded store and the encryption key."""
    agents_port: int = 8444
    """Where agents connect; told to those who add clusters."""
    database: SecretStr | None = None
    """`postgresql://user:password@host/name`; without it, SQLite in the data directory."""
