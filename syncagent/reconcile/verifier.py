"""Verification of bundles: checked every few seconds; a bad bundle is rolled back.
All state is on the local disk, so the control plane may be unreachable. A bad bundle is
quarantined: no desired state applies it again until a person lifts the quarantine.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.spec.desired import Desired
from core.spec.status import Phase
from core.spec.verification import Verification, VerificationResult
from syncagent.domain.objects import metadata_of
from syncagent.domain.observed.inventory import components_of
from syncagent.domain.observed.pods import restarts_of
from syncagent.domain.observed.summary import summarize
from syncagent.domain.verification import (
    BundleVerification,
    ObservedService,
    VerificationOutcome,
    judge_bundle,
)
from syncagent.ports import KubeApi, Metrics, ServiceReports, StateStore
from syncagent.reconcile.applier import TRANSIENT_REASONS
from syncagent.reconcile.registry import ServiceRegistry, ServiceState

log = structlog.get_logger(__name__)

_CHECK_EVERY_S = 5.0
_MAX_PODS = 200


class Verifier:
    """Runs the verifications. `roll_back` applies another desired state for a reason.
    Without `metrics`, no query has a result.
    """

    def __init__(
        self,
        cluster: KubeApi,
        registry: ServiceRegistry,
        memory: StateStore,
        reports: ServiceReports,
        clock: Clock,
        roll_back: Callable[[ServiceState, Desired, str], None],
        metrics: Metrics | None = None,
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._memory = memory
        self._reports = reports
        self._clock = clock
        self._roll_back = roll_back
        self._metrics = metrics

    async def run(self) -> None:
        """Checks all services under verification until cancelled."""
        while True:
            await self._clock.sleep(_CHECK_EVERY_S)
            for service in self._services_to_verify():
                try:
                    await self._check_service(service)
                except TowlineError as error:
                    log.warning("cannot verify", service=service.id, reason=error.message)

    def admit(self, desired: Desired) -> tuple[Desired, str]:
        """Returns the desired state to apply, and the reason if it is not the given one.
        If the desired bundle is quarantined, this is the last verified bundle.
        """
        trial = self._memory.trials.get(desired.service_id)
        if trial is None or desired.spec is None or desired.spec.digest != trial.bad:
            return desired, ""
        if desired.verification is None or desired.lifted:
            self._memory.trials.keep(replace(trial, bad="", reason=""))
            return desired, ""
        to_apply = _with_last_good_bundle(desired, trial)
        return to_apply, trial.reason if to_apply is not desired else ""

    def quarantine_reason(self, desired: Desired) -> str:
        """Returns the reason why this desired state replaces a quarantined one; empty if it does
        not.
        """
        trial = self._memory.trials.get(desired.service_id)
        good = trial.good.spec if trial is not None and trial.good is not None else None
        same = good is not None and desired.spec is not None and good.digest == desired.spec.digest
        return trial.reason if trial is not None and same else ""

    def digests(self) -> list[str]:
        """Lists the bundles that a rollback may need."""
        found = (trial.good for trial in self._memory.trials.all())
        return [good.spec.digest for good in found if good is not None and good.spec is not None]

    def _services_to_verify(self) -> Iterator[ServiceState]:
        """Iterates over services whose bundle is applied but not decided."""
        for service in self._registry:
            desired = service.desired
            if desired.verification is None or desired.spec is None:
                continue
            is_idle = service.busy is None and service.gate is None and not service.awaiting
            if (
                is_idle
                and service.current == desired
                and not (desired.spec.paused or desired.spec.dry_run)
            ):
                yield service

    async def _check_service(self, service: ServiceState) -> None:
        desired, policy = service.desired, service.desired.verification
        assert desired.spec is not None and policy is not None
        trial = self._memory.trials.get(service.id) or BundleVerification(service.id)
        if trial.is_decided(desired.spec.digest):
            return
        observation = await self._observe_service(service, policy)
        if observation is None or service.desired is not desired:
            return
        now_ms = int(self._clock.now().timestamp() * 1000)
        before = trial
        if trial.digest != desired.spec.digest:
            trial = trial.begin(desired.spec.digest, now_ms, observation.restarts)
        trial, finding, reason = judge_bundle(trial, policy, observation, now_ms)
        if finding != VerificationOutcome.PENDING:
            self._record_decision(service, trial, finding, reason)
        elif trial != before:
            self._memory.trials.keep(trial)

    async def _observe_service(
        self, service: ServiceState, policy: Verification
    ) -> ObservedService | None:
        """Observes a service; None if its state is unknown now."""
        is_transient = any(
            problem.reason in TRANSIENT_REASONS for problem in service.failures.values()
        )
        if is_transient or service.unseen or self._registry.gap:
            return None
        components = components_of(service.owned, self._registry.tree)
        phase, problems = summarize(components.values(), service.failures.values())
        first_problem = (
            f"{problems[0].ref or service.name}: {problems[0].message}" if problems else ""
        )
        pods = [component for component in components.values() if component.ref.kind == "Pod"][
            :_MAX_PODS
        ]
        restarts: dict[str, int] = {}
        for pod in pods:
            live = await self._cluster.get(pod.ref)
            if live is not None:
                restarts[metadata_of(live).get("uid") or ""] = restarts_of(live)
        return ObservedService(
            phase, first_problem, restarts, await self._metric_value(policy, phase)
        )

    async def _metric_value(self, policy: Verification, phase: Phase) -> float | None:
        if policy.metric is None or self._metrics is None or phase != Phase.HEALTHY:
            return None
        try:
            return await self._metrics.value(policy.metric)
        except TowlineError as error:
            log.warning("a metric cannot be read", reason=error.message)
            return None

    def _record_decision(
        self,
        service: ServiceState,
        trial: BundleVerification,
        finding: VerificationOutcome,
        reason: str,
    ) -> None:
        """Reports the result, rolls back if possible, and stores the decision, in this order."""
        desired = service.desired
        after = trial.decided(desired, finding, reason)
        to_apply = (
            _with_last_good_bundle(desired, after)
            if finding == VerificationOutcome.BAD
            else desired
        )
        restored_digest = to_apply.spec.digest if to_apply.spec and to_apply is not desired else ""
        log.info(
            "verified", service=service.id, good=finding == VerificationOutcome.GOOD, reason=reason
        )
        self._reports.verified(_verification_result(desired, finding, reason, restored_digest))
        self._memory.trials.keep(after)
        if to_apply is not desired:
            self._roll_back(service, to_apply, reason)


def _with_last_good_bundle(desired: Desired, trial: BundleVerification) -> Desired:
    """Replaces the bundle with the last good one; returns the same desired state if there
    is none.
    """
    if desired.spec is None or trial.good is None or trial.good.spec is None:
        return desired
    spec = replace(
        trial.good.spec,
        options=desired.spec.options,
        dry_run=desired.spec.dry_run,
        paused=desired.spec.paused,
    )
    return replace(desired, spec=spec)


def _verification_result(
    desired: Desired, finding: VerificationOutcome, reason: str, restored_digest: str
) -> VerificationResult:
    assert desired.spec is not None
    ok = finding == VerificationOutcome.GOOD
    return VerificationResult(
        desired.service_id, desired.sequence, desired.spec.digest, ok, reason, restored_digest
    )
