"""Gates that an HTTP endpoint decides."""

from dataclasses import dataclass
from typing import Annotated

import orjson

from controlplane.pipelines.model.gate_checks import CheckAnswer, CheckContext, CheckFinding
from controlplane.pipelines.model.gate_rules import CheckRule, SignedRule
from controlplane.platform.limits import check_range
from controlplane.platform.plugin_settings import MAX_LINE, Form, Setting

_NOT_YET = frozenset((202, 409, 425, 429, 503))


@dataclass(frozen=True, slots=True)
class HttpRule(CheckRule, SignedRule):
    """An HTTP endpoint returns success.

    Towline sends a signed POST request that describes the promotion. Status 202, 409, 425, 429 and
    503 mean "not yet".
    """

    kind = "HTTP"
    title = "HTTP"
    key = "http"
    destinations = ("url",)

    url: Annotated[
        str,
        Setting("URL", max_length=MAX_LINE, form=Form.URL, example="https://shop.example.org/gate"),
    ]
    """URL of the endpoint."""
    status: Annotated[int, Setting("Status", example=200)] = 0
    """Required status. 0 means any status from 200 to 299."""
    contains: Annotated[str, Setting("Body contains")] = ""
    """Text that the body must contain."""

    @property
    def receiver(self) -> str:
        return self.url

    def check_together(self, field: str) -> None:
        if self.status:
            check_range(self.status, f"{field}.status", 200, 599)

    async def run(self, context: CheckContext) -> CheckFinding:
        body = orjson.dumps(context.promotion)
        headers = {"content-type": "application/json", **context.sign(self.sealed, body)}
        reply = await context.request("POST", self.url, headers, body)
        return self._finding(reply.status, reply.body)

    def _finding(self, status: int, body: bytes) -> CheckFinding:
        passes = status == self.status if self.status else 200 <= status <= 299
        if status in _NOT_YET and status != self.status:
            return CheckFinding(CheckAnswer.UNDECIDED, f"got {status}: not ready yet")
        if not passes:
            return CheckFinding(CheckAnswer.FAILED, f"got {status}")
        if self.contains and self.contains not in body.decode(errors="replace"):
            return CheckFinding(
                CheckAnswer.FAILED,
                f"got {status}, but the body does not contain {self.contains[:80]!r}",
            )
        return CheckFinding(CheckAnswer.PASSED, f"got {status}")
