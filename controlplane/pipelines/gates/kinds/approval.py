"""Gates that users approve."""

from dataclasses import dataclass
from typing import Annotated

from controlplane.pipelines.model.gate_rules import GateInputs, GateRule, GateVerdict
from controlplane.pipelines.model.state import GateStatus
from controlplane.platform.plugin_settings import MAX_NAME, Setting
from core.errors import Invalid

_MAX_QUORUM = 20
_MAX_NAMES = 100


@dataclass(frozen=True, slots=True)
class ApprovalRule(GateRule):
    """A quorum of users approves."""

    kind = "APPROVAL"
    title = "Approval"
    in_workflows = True
    asks_users = True

    quorum: Annotated[
        int, Setting("Approvals", minimum=1, maximum=_MAX_QUORUM, unit="approvals", example=1)
    ] = 1
    """Number of required approvals."""
    not_author: Annotated[bool, Setting("Exclude the author of the commit")] = True
    """True keeps the author of the release, and the account that pushed it, from approving."""
    people: Annotated[
        tuple[str, ...], Setting("Approvers", max_items=_MAX_NAMES, max_length=MAX_NAME)
    ] = ()
    """E-mail addresses of possible approvers. Default: everybody with the permission."""
    groups: Annotated[
        tuple[str, ...], Setting("Approver groups", max_items=_MAX_NAMES, max_length=MAX_NAME)
    ] = ()
    """Names of groups of possible approvers. Default: everybody with the permission."""

    def check_together(self, field: str) -> None:
        if self.people and not self.groups and self.quorum > len(set(self.people)):
            raise Invalid(
                f"{self.quorum} approvals of {len(set(self.people))} people",
                field=f"{field}.quorum",
            )

    def evaluate(self, inputs: GateInputs) -> GateVerdict:
        actors = sorted({approval.actor for approval in inputs.valid_approvals})
        names = ", ".join(actors)
        if len(actors) >= self.quorum:
            return GateVerdict(GateStatus.OPEN, f"approved by {names}")
        so_far = f", so far {names}" if names else ""
        return GateVerdict(GateStatus.RUNNING, f"{len(actors)} of {self.quorum} approvals{so_far}")


def approval_of(rule: GateRule) -> ApprovalRule | None:
    """Returns the approval rule of a gate or of a workflow's step, if there is one."""
    return next(
        (step_rule for step_rule in rule.leaf_rules() if isinstance(step_rule, ApprovalRule)), None
    )
