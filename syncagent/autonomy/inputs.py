"""Checks the inputs of a bundle: its signature, its sources, and the signatures of these."""

from collections.abc import Iterator
from dataclasses import dataclass

from core.identity import is_local_id
from core.runtime.clock import Clock, SystemClock
from core.spec.desired import BundleSpec, Desired
from core.spec.input_checks import CheckResult, InputCheck, InputKind
from core.spec.statements.attestation import TrustedKeys
from syncagent.autonomy.policy import SourcePolicy

_UNSIGNED = "the cluster's operator accepts unsigned bundles"
_NO_RULE = "named in the signed statement; the cluster's tenants ask for no signature of it"


@dataclass(frozen=True, slots=True)
class InputVerifier:
    """Implements `ports.InputChecks` with the operator's keys and lists.
    `defines`: the cluster defines services itself, which need no signature. Else an ID of such a
    service must not exempt a bundle of the control plane.
    """

    trusted: TrustedKeys
    sources: SourcePolicy = SourcePolicy()
    clock: Clock = SystemClock()
    defines: bool = False

    def check(self, desired: Desired) -> tuple[InputCheck, ...]:
        """Returns the checks of an acceptable bundle; none of a service that the cluster defines.

        Raises Invalid for a bundle without a trusted signature, or from a source that is not listed
        or lacks a signature of its own.
        """
        is_local = self.defines and is_local_id(desired.service_id)
        if desired.spec is None or is_local:
            return ()
        if not self.trusted:
            bundle = InputKind.BUNDLE, desired.spec.digest
            return (InputCheck(*bundle, CheckResult.UNVERIFIED, _UNSIGNED),)
        return tuple(self._checks(desired, desired.spec))

    def _checks(self, desired: Desired, spec: BundleSpec) -> Iterator[InputCheck]:
        statement = self.trusted.verify(spec.digest, spec.attestation)
        self.sources.check(spec.namespace, statement)
        signers = self.sources.tenants.check_signatures(desired, statement, self.clock.now())
        key = f"signed by the key {spec.attestation.key_id}" if spec.attestation else ""
        yield InputCheck(InputKind.BUNDLE, spec.digest, CheckResult.VERIFIED, key)
        for source in statement.sources:
            signer = signers.get(source)
            result = CheckResult.VERIFIED if signer else CheckResult.UNVERIFIED
            reason = f"signed by {signer}" if signer else _NO_RULE
            yield InputCheck(InputKind.SOURCE, str(source), result, reason)
