"""Jobs that run in a cluster, for pipeline gates and for users."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import orjson

from controlplane.authorization import DEFAULT_PROJECT
from controlplane.platform.limits import check_count, check_length, check_range
from controlplane.platform.names import check_label
from core.errors import Invalid
from core.identity import ClusterId
from core.json_object import JsonMapping
from core.spec.jobs import JobPhase
from core.spec.objects import ObjectRef

MAX_MANIFEST_BYTES = 512 * 1024
MAX_TIMEOUT_S = 7 * 24 * 3600
DEFAULT_TIMEOUT = 3600
MAX_SECRETS = 64
_KINDS = {("batch/v1", "Job"), ("v1", "Pod")}


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """One Job or Pod that an agent runs once; `id` is the id of its command."""

    id: str
    cluster_id: ClusterId
    """ID of the cluster."""
    key: str
    """Idempotency key. A request with the same key returns the existing job."""
    namespace: str
    """Namespace of the job."""
    manifest: JsonMapping
    timeout_s: int
    follow: bool
    actor: str
    """E-mail address of the user, or name of the pipeline, that started the job."""
    inserted_at: datetime
    phase: JobPhase = JobPhase.PENDING
    """Progress of the job."""
    message: str = ""
    """Explanation of the phase, such as the reason of a failure."""
    object: ObjectRef | None = None
    """Object in the cluster. None until the agent has created it."""
    exit_code: int | None = None
    """Highest exit code of the containers. None until the job ends."""
    started_at: datetime | None = None
    """Start time."""
    finished_at: datetime | None = None
    """Time at which the job ended."""
    log_tail: str = ""
    """Last lines of the log."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Termination messages by container name."""
    retry_of: str | None = None
    """ID of the job that this one repeats."""
    sealed: bytes | None = field(default=None, repr=False)
    """Secrets, encrypted at rest."""
    project_id: str = DEFAULT_PROJECT
    """Project whose fence holds for the job."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to run."""

    namespace: str
    """Namespace of the job."""
    manifest: JsonMapping
    """Manifest of a `batch/v1` Job or a `v1` Pod. Limit: 512 KiB."""
    timeout_s: int = DEFAULT_TIMEOUT
    """Timeout in seconds. Default: 3,600. Limit: 604,800."""
    follow: bool = True
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values for Secrets in the manifest, or for `${towline.secret:NAME}` in `env`. Limit: 64."""
    key: str = ""
    """Idempotency key. A second request with the same key returns the first job. Limit: 255
    characters."""
    project_id: str | None = None

    def check(self) -> None:
        """Raises Invalid, naming the field, for a job that no agent can run."""
        check_label(self.namespace, "namespace")
        kind = (self.manifest.get("apiVersion"), self.manifest.get("kind"))
        if kind not in _KINDS:
            raise Invalid("must be a Job of batch/v1 or a Pod of v1", field="manifest")
        check_count(len(orjson.dumps(dict(self.manifest))), "manifest", MAX_MANIFEST_BYTES, "bytes")
        check_range(self.timeout_s, "timeout", 1, MAX_TIMEOUT_S, "s")
        check_count(len(self.secrets), "secrets", MAX_SECRETS)
        check_length(self.key, "key", 255)
