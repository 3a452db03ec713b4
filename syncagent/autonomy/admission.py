"""Admission of desired state: only bundles with a trusted signature are accepted; others are
reported and dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from core.errors import Invalid
from core.identity import is_local_id
from core.sealing import SealingKey
from core.spec.desired import Desired
from core.spec.input_checks import CheckResult, InputCheck, InputKind, InputVerdict
from core.spec.statements.orders import Power
from core.spec.status import Phase, Problem, StageTimes, SyncStatus
from core.spec.sync import ObjectSelection
from syncagent.autonomy.inputs import InputVerifier
from syncagent.domain.deletion import MIN_BUDGET
from syncagent.ports import Reconciler, ServiceReports

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoredStateCheck:
    """Checks stored desired state against the operator's present keys and settings."""

    inputs: InputVerifier
    key: SealingKey

    def check(self, desired: Desired) -> None:
        """Raises Invalid for desired state that would not be accepted today; the control plane
        sends it again if it still applies.
        """
        if is_local_id(desired.service_id) and not self.inputs.defines:
            raise Invalid("this cluster no longer defines services itself")
        if desired.spec is None:
            return
        self.inputs.check(desired)
        for secret in desired.spec.secrets:
            self.key.open(secret, desired.service_id)


class DesiredStateAdmission:
    """A `ports.Reconciler` in front of the real one.
    Without trusted keys it accepts everything. With trusted keys, only ordinary objects are
    deleted, and no more at a time than the default budget, unless the signed order confirms more.
    Otherwise the objects themselves must permit it (`towline.dev/prune: "true"`, or
    `towline.dev/delete: "true"` when the service is removed). `local` syncs the
    services that the cluster defines itself; if it is given, the control plane cannot define any.
    `report_all` reports those services again.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        inputs: InputVerifier,
        reports: ServiceReports,
        local: Callable[[], None] | None = None,
        report_all: Callable[[], None] | None = None,
    ) -> None:
        self._local = local
        self._report_local = report_all
        self._reconciler = reconciler
        self._inputs = inputs
        self._reports = reports

    def desire(self, desired: Desired) -> None:
        self.admit(desired, frozenset())

    def admit(self, desired: Desired, powers: frozenset[str]) -> bool:
        """Takes desired state with the powers of its order; False: reports a refusal."""
        try:
            self.check(desired)
        except Invalid as error:
            self.reject(desired, error.message)
            return False
        may_confirm = not self._inputs.trusted or Power.CONFIRMATIONS in powers
        self._reconciler.desire(
            desired if may_confirm else self._without_unsigned_deletions(desired)
        )
        return True

    def reject(self, desired: Desired, reason: str) -> None:
        """Reports the reason of a refusal."""
        log.error("service refused", service=desired.service_id, reason=reason)
        self._reports.status(self._refused_status(desired, reason))

    def check(self, desired: Desired) -> None:
        """Raises Invalid for a bundle without a trusted signature, or from a source that is not
        listed or lacks a signature of its own.
        """
        if self._local is not None and desired.spec is not None:
            raise Invalid(
                "this cluster defines its own services; define this service in the cluster"
            )
        self._inputs.check(desired)

    def stored_services(self) -> list[tuple[str, int]]:
        return self._reconciler.stored_services()

    def linked(self) -> None:
        self._reconciler.linked()

    def report_all(self) -> None:
        self._reconciler.report_all()
        if self._report_local is not None:
            self._report_local()

    def sync_now(
        self, command_id: str, service_id: str, selection: ObjectSelection | None = None
    ) -> None:
        if self._local is not None and is_local_id(service_id):
            self._local()
        self._reconciler.sync_now(command_id, service_id, selection)

    def terminate(self, command_id: str, service_id: str) -> None:
        self._reconciler.terminate(command_id, service_id)

    def refuse(self, command_id: str, reason: str) -> None:
        self._reconciler.refuse(command_id, reason)

    def _without_unsigned_deletions(self, desired: Desired) -> Desired:
        """Removes the fields that would permit more deletions than a signature covers."""
        if desired.agreed:
            log.warning("the order confirms no deletions", service=desired.service_id)
        desired = replace(desired, confirmed=())
        if desired.spec is None:
            return desired
        options = desired.spec.options
        budget = min(options.deletion_budget, MIN_BUDGET)
        options = replace(options, deletion_budget=budget)
        return replace(desired, spec=replace(desired.spec, options=options))

    def _refused_status(self, desired: Desired, reason: str) -> SyncStatus:
        digest, now = desired.spec.digest if desired.spec else "", self._inputs.clock.now()
        refused = InputCheck(InputKind.BUNDLE, digest, CheckResult.REFUSED, reason)
        return SyncStatus(
            desired.service_id,
            desired.sequence,
            digest,
            Phase.FAILED,
            (Problem(reason, reason="Untrusted"),),
            StageTimes(received=now),
            inputs=InputVerdict(digest, now, (refused,)),
        )
