"""Automated checks of gates: the access that a check has, and its results."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from controlplane.services.model.service import Service
from core.identity import ClusterId
from core.json_object import JsonMapping
from core.outbound.reply import HttpReply


class CheckAnswer(StrEnum):
    """Result of a check; UNDECIDED: the check is repeated later."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    UNDECIDED = "UNDECIDED"


class CheckFinding(NamedTuple):
    """Result of one run of a check with its reason; `measured` are the values of a metric."""

    answer: CheckAnswer
    reason: str
    measured: tuple[float, ...] = ()


class StartedJob(NamedTuple):
    """A cluster job that decides. Its end is the result of the check."""

    job_id: str


class CheckContext(Protocol):
    """The release that a check decides about, and access to other systems."""

    @property
    def promotion(self) -> JsonMapping:
        """The pipeline, the target stage and the release, for a request's body."""
        ...

    @property
    def placeholders(self) -> Mapping[str, str]:
        """The values of `${…}` in manifests, by name."""
        ...

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpReply:
        """Returns the response of a public address. Raises Unavailable if there is none."""
        ...

    def sign(self, sealed: str, body: bytes) -> Mapping[str, str]:
        """Returns the signature headers of a body; none without a secret."""
        ...

    async def read_in_cluster(self, cluster_id: ClusterId | None, path: str) -> JsonMapping:
        """Reads a path of a cluster's API server, with the permissions of the pipeline's owner."""
        ...

    async def run_job(
        self, namespace: str, manifest: JsonMapping, timeout_s: int, cluster: ClusterId | None
    ) -> StartedJob:
        """Runs a job, by default in the cluster of the target stage's first service."""
        ...

    async def services_named(self, name: str) -> Mapping[ClusterId, Sequence[Service]]:
        """Returns the services of this name in each cluster of the target stage.

        Services that the pipeline's owner may not read are left out.
        """
        ...
