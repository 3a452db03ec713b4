"""Values that cannot work are refused before anything is installed, in words that help."""

from typing import Any

import pytest

from tests.unit.charts.rendering import Json, helm, render, values_of

AGENT, HUB = "towline-agent", "towline"


def changed(chart: str, path: str, value: Any) -> Json:
    """The default values with one of them changed."""
    values = values_of(chart, "default")
    *groups, last = path.split(".")
    group = values
    for name in groups:
        group = group.setdefault(name, {})
    group[last] = value
    return values


@pytest.mark.parametrize(
    ("chart", "path", "value"),
    [
        (AGENT, "hub.address", "towline.example.org"),
        (AGENT, "hub.address", "https://towline.example.org:8444"),
        (AGENT, "hub.ca", "/etc/ssl/ca.crt"),
        (AGENT, "consoleUrl", "http://towline.example.org"),
        (AGENT, "impersonation.groups", []),
        (AGENT, "impersonation.groups", ["system:masters"]),
        (AGENT, "impersonation.groups", [""]),
        (AGENT, "impersonation.users", ["ada@example.org", ""]),
        (AGENT, "identity.proof.issuer", "http://id.example.org"),
        (AGENT, "identity.proof.maxAgeMinutes", 0),
        (AGENT, "people.unproven", ""),
        (AGENT, "rbac.apply.rules", [{"resources": ["pods"]}]),
        (AGENT, "image.digest", "sha256:abc"),
        (AGENT, "logLevel", "loud"),
        (AGENT, "state.size", "a lot"),
        (AGENT, "replicas", 2),
        (AGENT, "rbac.aply", {}),
        (HUB, "services.https.port", 70000),
        (HUB, "services.agents.type", "ExternalName"),
        (HUB, "drainSeconds", "ten"),
        (HUB, "replicaCount", 3),
        (HUB, "replicas", 0),
        (HUB, "gitcache.replicas", 1.5),
        (HUB, "certificate.duration", "90 days"),
        (HUB, "gateway.agents.apiVersion", "v2"),
        (HUB, "trial.postgresql.password", "mine"),
        (HUB, "trial.redis.image", ""),
    ],
)
def test_the_schema_names_the_value(chart: str, path: str, value: Any) -> None:
    """The message says which value it is."""
    with pytest.raises(helm.HelmValuesError) as refusal:
        render(chart, changed(chart, path, value))
    *groups, last = path.split(".")
    assert "/".join(groups) in str(refusal.value)
    assert last in str(refusal.value)


def test_no_list_of_groups_is_not_all_groups() -> None:
    """Null takes the default away; a role without names would let everyone be system:masters."""
    with pytest.raises(helm.HelmError, match="groups"):
        render(AGENT, changed(AGENT, "impersonation.groups", None))


@pytest.mark.parametrize(
    ("chart", "path", "value", "words"),
    [
        (AGENT, "hub.address", "", "hub.address: required"),
        (AGENT, "secrets.deployToken", "", "secrets.deployToken: required"),
        (AGENT, "serviceAccount.create", False, "serviceAccount.name: required"),
        (HUB, "ingress.enabled", True, "ingress.backend: required"),
        (HUB, "ingress", {"enabled": True, "backend": "https"}, "trustedProxies: required"),
        (
            HUB,
            "config.auth.oidc",
            [{"name": "corp", "client_secret": "canary-1234secret"}],
            "client_secret_file",
        ),
        (HUB, "config.secrets.vaults", [{"name": "v", "token": "canary-1234token"}], "token_file"),
        (HUB, "config.secrets.kek", {"kind": "vault", "token": "canary-1234token"}, "token_file"),
        (HUB, "config.traces.authorization", "Bearer canary-1234trace", "authorization_file"),
        (HUB, "config.listen", "0.0.0.0:1", "config.listen: the chart sets it"),
        (HUB, "config.database", "postgresql://db/towline", "config.database: the chart sets it"),
        (HUB, "config.redis", "redis://cache", "config.redis: the chart sets it"),
        (HUB, "config.git.peers.key", "k" * 32, "config.git.peers.key: the chart sets it"),
        (HUB, "replicas", 2, "redis.existingSecret: more than one replica needs a shared"),
        (HUB, "autoscaling.enabled", True, "redis.existingSecret: more than one replica needs"),
        (HUB, "gitcache.enabled", True, "redis.existingSecret: a separate git cache needs"),
        (HUB, "redis.existingSecret", "redis", "database.existingSecret: replicas need a shared"),
        (HUB, "gateway.enabled", True, "gateway.backend: required"),
        (HUB, "gateway.agents.enabled", True, "gateway.agents.parentRefs: required"),
        (HUB, "certificate.enabled", True, "certificate.issuerRef.name: required"),
    ],
)
def test_conflicting_values_are_refused_with_the_reason(
    chart: str, path: str, value: Any, words: str
) -> None:
    """The message says what to give."""
    with pytest.raises(helm.HelmError, match=words):
        render(chart, changed(chart, path, value))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("database.existingSecret", "", "database.existingSecret: replicas need a shared"),
        ("keys.existingSecret", "", "keys.existingSecret: replicas share encryption.key"),
        ("tls.existingSecret", "", "tls.existingSecret: replicas share one certificate"),
        ("persistence.existingClaim", "data", "persistence.existingClaim: each replica needs"),
        ("autoscaling.maxReplicas", 2, "autoscaling.maxReplicas: must be at least"),
        ("certificate.enabled", True, "certificate.enabled: conflicts with"),
        ("trial.postgresql.enabled", True, "trial.postgresql.enabled: conflicts with"),
        ("trial.redis.enabled", True, "trial.redis.enabled: conflicts with"),
    ],
)
def test_replicas_without_what_they_share_are_refused(path: str, value: Any, words: str) -> None:
    """One of several that would not find the others' state never starts."""
    values = values_of(HUB, "replicas")
    *groups, last = path.split(".")
    group = values
    for name in groups:
        group = group.setdefault(name, {})
    group[last] = value
    with pytest.raises(helm.HelmError, match=words):
        render(HUB, values)


def test_a_refusal_does_not_repeat_the_token() -> None:
    """Whatever is wrong with the token or beside it, a terminal does not show it."""
    values = changed(AGENT, "secrets.deployToken", 42_4242)
    values["secrets"]["tokn"] = "twa_precious"
    with pytest.raises(helm.HelmError) as refusal:
        render(AGENT, values)
    assert "424242" not in str(refusal.value)
    assert "twa_precious" not in str(refusal.value)
