"""Gates that an external program decides."""

from dataclasses import dataclass
from typing import Annotated

from controlplane.pipelines.model.gate_rules import GateInputs, GateVerdict, SignedRule
from controlplane.pipelines.model.state import GateStatus
from controlplane.platform.plugin_settings import MAX_NAME, Setting


@dataclass(frozen=True, slots=True)
class ExternalRule(SignedRule):
    """An external program reports the result.

    It uses a token of the account, or signs its calls with the secret.
    """

    kind = "EXTERNAL"
    title = "External"
    destinations = ("account",)

    account: Annotated[str, Setting("Service account", max_length=MAX_NAME, example="")]
    """E-mail address of the account that answers."""

    @property
    def receiver(self) -> str:
        return self.account

    def evaluate(self, inputs: GateInputs) -> GateVerdict:
        approvals = inputs.valid_approvals
        if approvals:
            return GateVerdict(
                GateStatus.OPEN, f"passed by {approvals[0].actor}: {approvals[0].comment}"
            )
        return GateVerdict(GateStatus.RUNNING, f"waiting for the answer of {self.account}")
