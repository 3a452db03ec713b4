"""File of the tenants of this cluster.

It maps the names of projects to their namespaces, kinds and service account:

    shop:
      namespaces: [shop-*]
      serviceAccount: shop-deployer    # NAME in the service's own namespace, or NAMESPACE:NAME
      clusterScoped: []                # kinds: ClusterRole.rbac.authorization.k8s.io
      denied: [ResourceQuota]
      signers:                         # keys by name; see docs/how-to/signed-sources.md
        shop-keys: |
          ada@example.org ssh-ed25519 AAAA...
      sources:                         # without a list: any source, signed or not
        - {url: https://git.example.org/shop/*, signedBy: [shop-keys]}
        - {url: oci://registry.example.org/charts, charts: [web]}
      images:                          # without a list: any image, signed or not
        - {match: registry.example.org/shop/*, signedBy: [shop-keys]}
"""

from collections.abc import Iterator, Mapping

import yaml

from core.errors import Invalid
from core.spec.fences import ObjectRules, check_service_account
from core.spec.image_signatures import ImageSignatureRule
from core.spec.source_signatures import SignatureRule, SignerSet
from core.wildcards import check_pattern
from syncagent.domain.tenants import Tenant, TenantPolicy

_FIELDS = {"namespaces", "serviceAccount", "clusterScoped", "denied", "signers", "sources"}
_FIELDS |= {"images"}
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
    signers = _signers(name, rules)
    return Tenant(
        check_service_account(account, f"{name}.serviceAccount"),
        ObjectRules(
            _patterns(name, rules, "namespaces"),
            _patterns(name, rules, "clusterScoped"),
            _patterns(name, rules, "denied"),
        ),
        tuple(
            SignatureRule(
                check_pattern(source["url"], f"{name}.sources.url"),
                _patterns(name, source, "charts"),
                _signed_by(name, source, signers),
            )
            for source in _rules(name, rules, "sources", ("url", "charts", "signedBy"))
        ),
        tuple(
            ImageSignatureRule(
                check_pattern(image["match"], f"{name}.images.match"),
                _signed_by(name, image, signers),
            )
            for image in _rules(name, rules, "images", ("match", "signedBy"))
        ),
    )


def _rules(
    name: str, rules: Mapping[str, object], field_name: str, fields: tuple[str, ...]
) -> Iterator[dict[str, str]]:
    """Yields the rules of a list. The first of `fields` is required, and a text."""
    given = rules.get(field_name) or []
    if not isinstance(given, list):
        raise Invalid(f"tenant {name}: {field_name} must be a list")
    for rule in given:
        if not isinstance(rule, dict) or not isinstance(rule.get(fields[0]), str):
            raise Invalid(f"tenant {name}: each of {field_name} needs the field {fields[0]}")
        if unknown := {str(key) for key in rule} - set(fields):
            raise Invalid(
                f"tenant {name}: unknown fields {', '.join(sorted(unknown))} in {field_name}"
            )
        yield rule


def _signed_by(
    name: str, rule: Mapping[str, object], signers: Mapping[str, SignerSet]
) -> tuple[SignerSet, ...]:
    names = _patterns(name, rule, "signedBy")
    if missing := [each for each in names if each not in signers]:
        raise Invalid(f"tenant {name}: there is no set of signers {missing[0]}")
    return tuple(signers[each] for each in names)


def _signers(name: str, rules: Mapping[str, object]) -> dict[str, SignerSet]:
    given = rules.get("signers") or {}
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise Invalid(f"tenant {name}: signers must map names to keys")
    sets = {str(key): SignerSet(str(key), text) for key, text in given.items()}
    for each in sets.values():
        each.read()
    return sets


def _patterns(name: str, rules: Mapping[str, object], field_name: str) -> tuple[str, ...]:
    given = rules.get(field_name) or []
    if not isinstance(given, list) or not all(isinstance(pattern, str) for pattern in given):
        raise Invalid(f"tenant {name}: {field_name} must be a list of texts")
    return tuple(check_pattern(pattern, f"{name}.{field_name}") for pattern in given)
