"""Jobs that run in a cluster, for pipeline gates and for users."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from controlplane.platform.names import check_label
from core.errors import Invalid
from core.identity import ClusterId
from core.spec.jobs import JobPhase
from core.spec.objects import ObjectRef

MAX_MANIFEST_BYTES = 512 * 1024
MAX_TIMEOUT_S = 7 * 24 * 3600
DEFAULT_TIMEOUT = 3600
MAX_SECRETS = 64
_KINDS = {("batch/v1", "Job"), ("v1", "Pod")}


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """One Job or Pod that an agent runs once; `id` is the id of its command.

    A request with the same `key` returns the existing job. `sealed` holds its secrets, encrypted at
    rest. `outputs` is the text of its termination logs by container.
    """

    id: str
    cluster_id: ClusterId
    key: str
    namespace: str
    manifest: Mapping[str, Any]
    timeout_s: int
    follow: bool
    actor: str
    inserted_at: datetime
    phase: JobPhase = JobPhase.PENDING
    message: str = ""
    object: ObjectRef | None = None
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    log_tail: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    retry_of: str | None = None
    sealed: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to run.

    `secrets` are plain values by the names that the manifest uses. Requests with the same `key`
    return one job.
    """

    namespace: str
    manifest: Mapping[str, Any]
    timeout_s: int = DEFAULT_TIMEOUT
    follow: bool = True
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: str = ""

    def check(self) -> None:
        """Raises Invalid, naming the field, for a job that no agent can run."""
        check_label(self.namespace, "namespace")
        kind = (self.manifest.get("apiVersion"), self.manifest.get("kind"))
        if kind not in _KINDS:
            raise Invalid("must be a Job of batch/v1 or a Pod of v1", field="manifest")
        if len(orjson.dumps(dict(self.manifest))) > MAX_MANIFEST_BYTES:
            raise Invalid(f"is longer than {MAX_MANIFEST_BYTES:,} bytes", field="manifest")
        if not 1 <= self.timeout_s <= MAX_TIMEOUT_S:
            raise Invalid(f"must be 1 to {MAX_TIMEOUT_S} s", field="timeout")
        if len(self.secrets) > MAX_SECRETS:
            raise Invalid(f"has more than {MAX_SECRETS} values", field="secrets")
        if len(self.key) > 255:
            raise Invalid("must be at most 255 characters", field="key")
