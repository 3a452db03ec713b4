"""Settings of the git cache; read by the composition only. Every size is in bytes."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PollSettings(_Group):
    """How often servers are asked. Seconds."""

    seconds: float = Field(15.0, ge=0.05)
    """One request per repository; 300 repositories every second cost about 12% of a core."""
    seconds_with_webhook: float = Field(120.0, ge=0.05)
    """Once webhooks are known to come, polling is only the net beneath them."""
    request_seconds: float = Field(20.0, gt=0)
    """A server that accepts and never answers must not hold a poll for longer."""
    requests_per_host: int = Field(8, ge=1)
    """Git servers limit clients; more than this at once has been seen to be refused."""
    requests_per_second: float = Field(50.0, gt=0)
    """To one server, with bursts of twice as many: the steady rate that hosts bear with."""


class FetchSettings(_Group):
    """How commits are fetched."""

    seconds: float = Field(300.0, gt=0)
    """A first clone of a large repository over a slow line takes minutes, not hours."""
    allow_private_hosts: bool = True
    """Git servers of a company live on private addresses. Switch off where people who may add
    repositories must not reach the network of the control plane. Link-local addresses (the
    metadata services of clouds) are refused either way."""
    known_hosts: Path | None = None
    """Host keys for ssh, in OpenSSH's form. Without it only servers are trusted whose keys are
    given with the repository."""
    authority: Path | None = None
    """PEM file of authorities that are trusted for https beside the system's."""
    proxy: SecretStr | None = None
    """`http://[user:password@]host:port`, through which all git servers and places of charts are
    reached."""
    lean_entries: int = Field(20_000, ge=0)
    """Of repositories with more files and folders only those files are fetched that are used."""
    large_file: int = Field(64 << 20, ge=0)
    """The largest file that is fetched from a Git LFS server; with 0 none is."""
    memory: int | None = Field(None, ge=64 << 20)
    """Of one git process, without the packs that it reads: a pack of kilobytes can ask for more
    than a machine has. A commit that needs more is refused. Without it half of what the container
    has, 2 GiB at most."""


class RenderSettings(_Group):
    """Bounds of one render, so that one folder can harm only its own service."""

    workers: int = Field(2, ge=1, le=64)
    """One per core that may render; an idle worker costs about 30 MB."""
    seconds: float = Field(30.0, gt=0)
    """Wall and CPU time; kustomize on a normal service takes 0.06 s."""
    memory: int = Field(768 << 20, ge=128 << 20)
    """Address space of a worker: the largest bundle (64 MiB) as Python objects fits."""
    tool_memory: int = Field(4 << 30, ge=1 << 30)
    """Address space of kustomize, which as a Go program reserves more than it uses."""
    jobs_per_worker: int = Field(1000, ge=1)
    """A worker is replaced after so many, so that nothing can pile up in it."""
    files: int = Field(10_000, ge=1)
    """Files of one folder with all that it refers to."""
    input_bytes: int = Field(128 << 20, ge=1 << 20)
    """Size of these files together: twice the largest bundle."""
    chart_index_bytes: int = Field(32 << 20, ge=1 << 20)
    """The largest index of a chart repository that is read; large public ones have about 20 MB."""
    chart_bytes: int = Field(32 << 20, ge=1 << 10)
    """The largest archive of a chart."""
    age_keys: Path | None = None
    """Folder of age identities that open files of SOPS: `<project id>.agekey`, `default.agekey`."""


class StoreSettings(_Group):
    """Where finished bundles are kept."""

    memory: int = Field(32 << 20, ge=0)
    """The most recently used bundles; a bundle is a few kB mostly."""
    watermark: float = Field(0.85, gt=0, le=1)
    """The share of the disk beyond which no further repository is cloned, and bundles that are
    not live leave."""
    keep_days: float = Field(30.0, ge=0)
    """How long a bundle stays that no service wants and none is rolled back to."""
    objects: str | None = None
    """`s3://bucket/prefix`, or another URL of an object store, which keeps a copy of all bundles
    for all replicas; its credentials come from the environment of the cloud. Needs the extra
    `s3`."""


class PeerSettings(_Group):
    """Several replicas of the git cache: with `--redis`, or as servers of their own."""

    key: SecretStr | None = Field(None, min_length=32)
    """What all replicas and their control planes share: from it they derive their TLS
    authority and the seal on what lies in Redis. `openssl rand -hex 32` makes one."""
    name: str | None = None
    """Of this replica, the same after a restart; without it, the machine's name."""
    address: str | None = None
    """`host:port` under which other replicas reach this one; without it, where it listens."""
    servers: tuple[str, ...] = ()
    """`host:port` of replicas that run as `--target gitcache`; with it, nothing is followed or
    rendered in this process."""
    heartbeat_seconds: float = Field(1.0, ge=0.05)
    """How often a replica says that it lives."""
    lease_seconds: float = Field(4.0, ge=0.2)
    """How long a dead replica's repositories wait for another; three heartbeats at least."""

    @field_validator("servers", mode="before")
    @classmethod
    def _listed(cls, servers: object) -> object:
        if isinstance(servers, str):
            return [server.strip() for server in servers.split(",") if server.strip()]
        return servers


class GitCacheSettings(_Group):
    """Everything of the git cache; all its files are below `data_dir`."""

    data_dir: Path
    poll: PollSettings = PollSettings()
    fetch: FetchSettings = FetchSettings()
    render: RenderSettings = RenderSettings()
    store: StoreSettings = StoreSettings()
    peers: PeerSettings = PeerSettings()
