"""Gates that wait for a version of another service."""

from dataclasses import dataclass
from typing import Annotated

from controlplane.pipelines.model.gate_checks import CheckAnswer, CheckContext, CheckFinding
from controlplane.pipelines.model.gate_rules import CheckRule
from controlplane.pipelines.model.versions import check_range, highest_version
from controlplane.platform.plugin_settings import MAX_NAME, Setting
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus


@dataclass(frozen=True, slots=True)
class VersionRule(CheckRule):
    """Another service is healthy with a version in a range."""

    kind = "VERSION"
    title = "Version"
    key = "version"

    service: Annotated[str, Setting("Service", max_length=MAX_NAME, example="")]
    """Name without a cluster. The service must exist in every cluster of the target stage."""
    range: Annotated[str, Setting("Version range", max_length=MAX_NAME, example=">=1.0.0")]
    """Version range in the syntax of npm, such as `^1.2` or `>=2 <3`."""

    def check_together(self, field: str) -> None:
        check_range(self.range, f"{field}.range")

    async def run(self, context: CheckContext) -> CheckFinding:
        services = await context.services_named(self.service)
        if not services:
            return CheckFinding(CheckAnswer.UNDECIDED, "the stage has no service")
        missing = [cluster for cluster, matching in services.items() if not matching]
        if missing:
            reason = f"{len(missing)} clusters have no service {self.service}"
            return CheckFinding(CheckAnswer.UNDECIDED, reason)
        matching = [
            service for cluster_services in services.values() for service in cluster_services
        ]
        problem = next((reason for service in matching if (reason := self._problem(service))), None)
        if problem is not None:
            return CheckFinding(CheckAnswer.UNDECIDED, problem)
        reason = f"{self.service} is healthy at {matching[0].spec.version}"
        return CheckFinding(CheckAnswer.PASSED, reason)

    def _problem(self, service: Service) -> str | None:
        if highest_version([service.spec.version], self.range) is None:
            return f"{self.service} has version {service.spec.version}, expected {self.range}"
        if service.applied_status is not ServiceStatus.HEALTHY:
            return f"{self.service} is {service.applied_status.value}"
        return None
