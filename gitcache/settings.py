"""Settings of the git cache; only the composition reads them. All sizes are in bytes."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from core.spec.statements.orders import ALL_POWERS, Power


def _split_list(items: object) -> object:
    if isinstance(items, str):
        return [item.strip() for item in items.split(",") if item.strip()]
    return items


_SPLIT = BeforeValidator(_split_list)


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PollSettings(_Group):
    """Polling of git servers. Times are in seconds."""

    seconds: float = Field(15.0, ge=0.05)
    """Interval between polls of a repository, in seconds. Each poll is one request; polling 300
    repositories every second takes about 12% of a core."""
    seconds_with_webhook: float = Field(120.0, ge=0.05)
    """Poll interval, in seconds, of repositories that send webhooks."""
    request_seconds: float = Field(20.0, gt=0)
    """Time-out of a poll request, in seconds."""
    requests_per_host: int = Field(8, ge=1)
    """Maximum concurrent requests to one git server. Many servers refuse more."""
    requests_per_second: float = Field(50.0, gt=0)
    """Maximum requests per second to one git server, with bursts of twice as many."""


class FetchSettings(_Group):
    """Fetching of commits."""

    seconds: float = Field(300.0, gt=0)
    """Time-out of a fetch or clone, in seconds."""
    allow_private_hosts: bool = True
    """Allow repositories on private IP addresses. Set to false if users who add repositories must
    not reach the control plane's network. Link-local addresses, such as the metadata services of
    clouds, are always refused."""
    known_hosts: Path | None = None
    """File of ssh host keys in OpenSSH format. Without it, each ssh repository needs its own host
    keys."""
    authority: Path | None = None
    """PEM file of CAs to trust for https in addition to the system's."""
    proxy: SecretStr | None = None
    """Proxy for all git servers and chart repositories: `http://[user:password@]host:port`."""
    lean_entries: int = Field(20_000, ge=0)
    """For repositories with more files and folders than this, fetch only the files in use."""
    large_file: int = Field(64 << 20, ge=0)
    """Maximum size of a Git LFS file, in bytes. 0 disables Git LFS."""
    memory: int | None = Field(None, ge=64 << 20)
    """Memory limit of one git process in bytes, without the packs that it reads. Commits that need
    more are refused. Default: half of the container's memory, at most 2 GiB."""


class RenderSettings(_Group):
    """Limits of one render, so that a folder can affect only its own service."""

    workers: int = Field(2, ge=1, le=64)
    """Number of render workers, at most one per core. An idle worker needs about 30 MB."""
    seconds: float = Field(30.0, gt=0)
    """Maximum wall and CPU time of a render, in seconds. kustomize needs about 0.06 s for a typical
    service."""
    memory: int = Field(768 << 20, ge=128 << 20)
    """Address space of a worker, in bytes. The default fits the largest bundle (64 MiB)."""
    tool_memory: int = Field(4 << 30, ge=1 << 30)
    """Address space of kustomize, in bytes. Go programs reserve more than they use."""
    jobs_per_worker: int = Field(1000, ge=1)
    """Number of jobs after which a worker is replaced, so that leaks stay small."""
    files: int = Field(10_000, ge=1)
    """Maximum number of files of one folder with its references."""
    input_bytes: int = Field(128 << 20, ge=1 << 20)
    """Maximum total size of these files, in bytes."""
    chart_index_bytes: int = Field(32 << 20, ge=1 << 20)
    """Maximum size of a chart repository's index, in bytes. Large public ones have about 20 MB."""
    chart_bytes: int = Field(32 << 20, ge=1 << 10)
    """Maximum size of a chart archive, or of all layers of an artifact, in bytes."""
    age_keys: Path | None = None
    """Folder of age identities that decrypt SOPS files: `<project id>.agekey`, `default.agekey`."""


class StoreSettings(_Group):
    """Storage of rendered bundles."""

    memory: int = Field(32 << 20, ge=0)
    """Memory for the most recently used bundles, in bytes. A typical bundle has a few kB."""
    watermark: float = Field(0.85, gt=0, le=1)
    """Disk usage, 0 to 1, above which no new repository is cloned and unused bundles are
    evicted."""
    keep_days: float = Field(30.0, ge=0)
    """Days after its last use to keep a chart, or a bundle that no service uses or may roll back
    to."""
    objects: str | None = None
    """URL of an object store for copies of all bundles, such as `s3://bucket/prefix`. Credentials
    come from the cloud environment. Requires the extra `s3`."""


class SigningSettings(_Group):
    """Signatures of renders, and of orders to agents. The control plane cannot change them where
    the git cache runs in its own processes."""

    key: Path | None = None
    """File of the private Ed25519 key: PEM, or 32 raw bytes. Rotations are in a file of the same
    name with the suffix `.rotations`. Default: `git/signing.key` in the data folder, which the
    first start creates. Replicas need the same file."""
    sources: Annotated[tuple[str, ...], _SPLIT] = ()
    """Sources that are signed, as `URL?ref=REF#FOLDER`, with `*` for any text in the URL and the
    ref: a branch, or a full ref such as `refs/tags/v*`. Every source of a bundle must be listed,
    and its commit part of a listed ref. Without a ref: any commit. Empty: any source."""
    orders: Annotated[tuple[Power, ...], _SPLIT] = ALL_POWERS
    """Acts that are signed on request of the control plane: `removals`, `confirmations`,
    `options`, `fences`, `jobs`, `upgrades`. Default: all. Without any, a stolen control plane can
    only deliver signed bundles."""


class PeerSettings(_Group):
    """Replicas of the git cache: with `--redis`, or as separate servers."""

    key: SecretStr | None = Field(None, min_length=32)
    """Shared key of all replicas and their control planes, at least 32 characters. They derive
    their CA and the HMAC key for Redis from it. Generate one with `openssl rand -hex 32`."""
    name: str | None = None
    """Name of this replica, stable over restarts. Default: the host name."""
    address: str | None = None
    """`host:port` at which other replicas reach this one. Default: its listen address."""
    servers: Annotated[tuple[str, ...], _SPLIT] = ()
    """`host:port` of replicas that run with `--target gitcache`. If set, this process does not
    follow or render repositories itself."""
    heartbeat_seconds: float = Field(1.0, ge=0.05)
    """Interval between heartbeats of a replica, in seconds."""
    lease_seconds: float = Field(4.0, ge=0.2)
    """Time until other replicas take over the repositories of a dead replica, in seconds. At least
    three heartbeats."""


class GitSettings(_Group):
    """Settings of the git cache that users choose."""

    poll: PollSettings = PollSettings()
    fetch: FetchSettings = FetchSettings()
    render: RenderSettings = RenderSettings()
    store: StoreSettings = StoreSettings()
    peers: PeerSettings = PeerSettings()
    signing: SigningSettings = SigningSettings()


class GitCacheSettings(GitSettings):
    """All settings of the git cache; its files are in `data_dir`."""

    data_dir: Path
