"""Tenants of this cluster: rules for projects that the control plane cannot change."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.errors import Invalid
from core.spec.fences import ObjectRules, ServiceFence, qualified_account


@dataclass(frozen=True, slots=True)
class Tenant:
    """The rules of one project in this cluster."""

    service_account: str
    """`name` in a service's own namespace, or `namespace:name`."""
    rules: ObjectRules


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """Tenants by name of their project. Empty: the fences of the control plane alone apply."""

    tenants: Mapping[str, Tenant] = field(default_factory=dict)

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
        return replace(fence, service_account=account, rules=(*fence.rules, tenant.rules))
