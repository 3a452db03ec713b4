"""File of the tenants of this cluster.

It maps the names of projects to their namespaces, kinds and service account:

    shop:
      namespaces: [shop-*]
      serviceAccount: shop-deployer    # NAME in the service's own namespace, or NAMESPACE:NAME
      clusterScoped: []                # kinds: ClusterRole.rbac.authorization.k8s.io
      denied: [ResourceQuota]
"""

from collections.abc import Mapping

import yaml

from core.errors import Invalid
from core.spec.fences import ObjectRules, check_pattern, check_service_account
from syncagent.domain.tenants import Tenant, TenantPolicy

_FIELDS = {"namespaces", "serviceAccount", "clusterScoped", "denied"}
_MAX_FILE_BYTES = 1 << 20


def parse_tenants(data: bytes) -> TenantPolicy:
    """Parses the file of tenants. Invalid: it is not one; the message names the place."""
    if len(data) > _MAX_FILE_BYTES:
        raise Invalid("the file of tenants is larger than 1 MiB")
    try:
        parsed = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Invalid(f"the file of tenants is not valid YAML: {error}") from None
    if not isinstance(parsed, dict) or not parsed:
        raise Invalid("the file of tenants must map the name of each project to its rules")
    return TenantPolicy({str(name): _tenant(str(name), rules) for name, rules in parsed.items()})


def _tenant(name: str, rules: object) -> Tenant:
    if not isinstance(rules, dict):
        raise Invalid(f"tenant {name}: expected a map of {', '.join(sorted(_FIELDS))}")
    if unknown := {str(key) for key in rules} - _FIELDS:
        raise Invalid(f"tenant {name}: unknown fields {', '.join(sorted(unknown))}")
    account = rules.get("serviceAccount")
    if not isinstance(account, str):
        raise Invalid(f"tenant {name}: serviceAccount is missing")
    return Tenant(
        check_service_account(account, f"{name}.serviceAccount"),
        ObjectRules(
            _patterns(name, rules, "namespaces"),
            _patterns(name, rules, "clusterScoped"),
            _patterns(name, rules, "denied"),
        ),
    )


def _patterns(name: str, rules: Mapping[str, object], field_name: str) -> tuple[str, ...]:
    given = rules.get(field_name) or []
    if not isinstance(given, list) or not all(isinstance(pattern, str) for pattern in given):
        raise Invalid(f"tenant {name}: {field_name} must be a list of texts")
    return tuple(check_pattern(pattern, f"{name}.{field_name}") for pattern in given)
