"""Tenants of this cluster: rules for projects that the control plane cannot change."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from core.errors import Invalid
from core.signatures.signer import VerifiedSigner
from core.spec.desired import Desired
from core.spec.fences import ObjectRules, ServiceFence, qualified_account
from core.spec.image_signatures import ImageSignatureRule
from core.spec.source_signatures import SignatureRule, check_signatures, decode_evidence
from core.spec.statements.attestation import AttestationStatement, SignedSource


@dataclass(frozen=True, slots=True)
class Tenant:
    """The rules of one project in this cluster."""

    service_account: str
    """`name` in a service's own namespace, or `namespace:name`."""
    rules: ObjectRules
    sources: tuple[SignatureRule, ...] = ()
    """Allowed sources, and the keys that must have signed them. Empty: every source."""
    images: tuple[ImageSignatureRule, ...] = ()
    """Allowed images, and the keys that must have signed them. Empty: every image."""


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """Tenants by name of their project. Empty: the fences of the control plane alone apply."""

    tenants: Mapping[str, Tenant] = field(default_factory=dict)

    @property
    def check_sources(self) -> bool:
        """Reports whether a tenant limits its sources."""
        return any(tenant.sources for tenant in self.tenants.values())

    def check_signatures(
        self, desired: Desired, statement: AttestationStatement, now: datetime
    ) -> dict[SignedSource, VerifiedSigner]:
        """Returns the signers of the sources that need a signature.

        Raises Invalid for a source that its tenant does not list, or that is not signed.
        """
        tenant = self.tenants.get(desired.fence.project if desired.fence is not None else "")
        if tenant is None or not tenant.sources or desired.spec is None:
            return {}
        if not statement.sources:
            raise Invalid("the bundle has no source, but this cluster lists those of its tenants")
        attestation = desired.spec.attestation
        evidence = decode_evidence(attestation.evidence if attestation is not None else b"")
        return check_signatures(tenant.sources, statement.sources, evidence, now)

    def narrowed(self, fence: ServiceFence | None, namespace: str) -> ServiceFence | None:
        """Returns the fence of a service in a namespace, within the rules of its tenant.

        The tenant's service account replaces the one of the control plane. Invalid: the project is
        not a tenant of this cluster.
        """
        if not self.tenants:
            return fence
        project = fence.project if fence is not None else ""
        tenant = self.tenants.get(project)
        if tenant is None:
            raise Invalid(
                f"project {project or '(none)'} is not a tenant of this cluster; the cluster's "
                "operator can add it to the agent's own settings (autonomy.tenants)"
            )
        fence = fence or ServiceFence(project)
        account = qualified_account(tenant.service_account, namespace)
        rules = (*fence.rules, tenant.rules)
        return replace(fence, service_account=account, rules=rules, images=tenant.images)
