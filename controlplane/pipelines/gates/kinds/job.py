"""Gates that a Job or Pod in a cluster decides."""

from dataclasses import dataclass
from typing import Annotated

from controlplane.agents.model.jobs import DEFAULT_TIMEOUT, MAX_TIMEOUT_S, JobRequest
from controlplane.authorization import Verb
from controlplane.pipelines.gates.templating import fill_manifest
from controlplane.pipelines.model.gate_checks import CheckContext, StartedJob
from controlplane.pipelines.model.gate_rules import CheckRule, ClusterAccess
from controlplane.platform.plugin_settings import Form, Setting
from core.errors import Invalid
from core.identity import ClusterId
from core.json_object import JsonMapping

_MARGIN_S = 300
_EXAMPLE = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "check"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "check",
                        "image": "registry.example.org/check:1",
                        "command": ["true"],
                    }
                ],
            }
        }
    },
}


@dataclass(frozen=True, slots=True)
class JobRule(CheckRule):
    """A Job or Pod in a cluster succeeds.

    The agent of the cluster runs it once.
    """

    kind = "JOB"
    title = "Job"
    key = "job"

    namespace: Annotated[str, Setting("Namespace", max_length=63, example="default")]
    """Namespace of the job."""
    manifest: Annotated[JsonMapping, Setting("Manifest", example=_EXAMPLE)]
    """JSON of a `batch/v1` Job or a `v1` Pod, which may contain `${release}`, `${commit}`,
    `${stage}` and `${steps.NAME.OUTPUT}`. Limit: 512 KiB."""
    cluster_id: Annotated[ClusterId | None, Setting("Cluster", form=Form.CLUSTER)] = None
    """ID of the cluster. Default: the cluster of the first service in the target stage."""
    timeout_seconds: Annotated[
        int, Setting("Job timeout", minimum=1, maximum=MAX_TIMEOUT_S, unit="seconds")
    ] = DEFAULT_TIMEOUT
    """Timeout of the job in seconds."""

    @property
    def default_timeout_s(self) -> int:
        # The job ends by itself and reports its result; the check only has to outlive it.
        return self.timeout_seconds + _MARGIN_S

    def check_together(self, field: str) -> None:
        try:
            JobRequest(self.namespace, self.manifest, self.timeout_seconds).check()
        except Invalid as error:
            raise Invalid(error.message, field=f"{field}.{error.field}") from None

    def cluster_access(self) -> ClusterAccess:
        return ClusterAccess(Verb.WRITE, self.cluster_id)

    async def run(self, context: CheckContext) -> StartedJob:
        manifest = fill_manifest(self.manifest, context.placeholders)
        return await context.run_job(
            self.namespace, manifest, self.timeout_seconds, self.cluster_id
        )
