"""Limits of sync options, Helm settings and verifications."""

from typing import Any

import pytest

from controlplane.services.model.helm import check_helm, follows_chart, ref_of_chart, release_of
from controlplane.services.model.settings_checks import check_sync_options
from controlplane.services.model.verification import check_verification
from core.errors import Invalid
from core.spec.health import FieldCondition, HealthRule, HealthState
from core.spec.sync import IgnoredDifference, SyncOptions
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification

IGNORED = "syncConfig.diffNormalizers"
RULES = "syncConfig.healthRules"


def ignored(**fields: Any) -> SyncOptions:
    return SyncOptions(ignored=(IgnoredDifference(**fields),))


def rule(message: str = "", *pointers: str) -> SyncOptions:
    conditions = tuple(FieldCondition(pointer, ("x",)) for pointer in pointers)
    return SyncOptions(health_rules=(HealthRule("", "A", HealthState.FAILED, conditions, message),))


VALUES = (
    "replicas: 3",
    "{a: {b: [1]}}",
    "# nothing\n",
    "---\na: 1\n",
    "a: &x {b: 1}\nc: *x\n",
    "${item.values}",
    "a: ${cluster.handle}",
    "{% if a %}\nb: 1\n{% endif %}",
    "{{ configuration.values }}",
)


@pytest.mark.parametrize(
    "options",
    [
        SyncOptions(),
        SyncOptions(ignored=(IgnoredDifference(managers=("hpa",)),) * 256),
        ignored(pointers=("/a",) * 64, managers=("m",) * 64),
        ignored(pointers=("/" + "x" * 1023,)),
        SyncOptions(health_rules=(HealthRule("", "A", HealthState.FAILED),) * 64),
        rule("/status/message", *["/a"] * 16),
        SyncOptions(wave_timeout_s=86_400, deletion_budget=1_000_000),
    ],
)
def test_sync_options_at_their_limits_are_accepted(options: SyncOptions) -> None:
    check_sync_options(options)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (SyncOptions(ignored=(IgnoredDifference(managers=("hpa",)),) * 257), IGNORED),
        (ignored(), IGNORED),
        (ignored(pointers=("/a",) * 65), f"{IGNORED}.jsonPointers"),
        (ignored(managers=("m",) * 65), f"{IGNORED}.managers"),
        (ignored(pointers=("a",)), f"{IGNORED}.jsonPointers"),
        (ignored(pointers=("/" + "x" * 1024,)), f"{IGNORED}.jsonPointers"),
        (SyncOptions(health_rules=(HealthRule("", "A", HealthState.FAILED),) * 65), RULES),
        (rule("", *["/a"] * 17), f"{RULES}.conditions"),
        (rule("", "a"), RULES),
        (rule("message"), RULES),
        (SyncOptions(wave_timeout_s=86_401), "syncConfig.waveTimeout"),
        (SyncOptions(wave_timeout_s=-1), "syncConfig.waveTimeout"),
        (SyncOptions(deletion_budget=1_000_001), "syncConfig.deletionBudget"),
        (SyncOptions(deletion_budget=-1), "syncConfig.deletionBudget"),
    ],
)
def test_sync_options_beyond_their_limits_are_named(options: SyncOptions, field: str) -> None:
    with pytest.raises(Invalid) as error:
        check_sync_options(options)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({}, {}),
        ({"chart": "", "ignore_hooks": False, "values_files": ["", None]}, {}),
        ({"chart": "c" * 256, "version": "1" * 128}, {"chart": "c" * 256, "version": "1" * 128}),
        ({"release": "r" * 53, "ignore_crds": 1}, {"release": "r" * 53, "ignore_crds": True}),
        ({"values": "a: " + "v" * 524_285}, {"values": "a: " + "v" * 524_285}),
        *(({"values": text}, {"values": text}) for text in VALUES),
        ({"values_files": ["f" * 1024] * 64}, {"values_files": ["f" * 1024] * 64}),
        *(({"url": url, "chart": "c"}, {"url": url, "chart": "c"}) for url in (
            "https://charts.{{ region }}.example.org/a b", "oci://${host}/a?b", "http://h/{% x %}"
        )),
        ({"url": "oci://charts.example.org/x", "chart": "web", "unknown": 1},
         {"url": "oci://charts.example.org/x", "chart": "web"}),
    ],
)  # fmt: skip
def test_helm_settings_are_stored_without_empty_values(
    given: dict[str, Any], stored: dict[str, Any]
) -> None:
    assert check_helm(given) == stored


def test_broken_helm_values_are_refused_with_their_line() -> None:
    with pytest.raises(Invalid, match=r"helm.values: is not YAML, line 3: did not find"):
        check_helm({"values": "a: 1\nb: [2\n"})


def test_deeply_nested_values_are_read_without_recursion() -> None:
    text = "a: " + "[" * 5000 + "]" * 5000
    assert check_helm({"values": text}) == {"values": text}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"chart": "c" * 257}, "helm.chart"),
        ({"version": "1" * 129}, "helm.version"),
        ({"url": "https://charts.example.org/" + "x" * 2000, "chart": "c"}, "helm.url"),
        ({"release": "r" * 54}, "helm.release"),
        ({"values": "a: " + "v" * 524_286}, "helm.values"),
        ({"values": "replicas: [1"}, "helm.values"),
        ({"values": "a: b: c"}, "helm.values"),
        ({"values": "a:\n\tb: 1"}, "helm.values"),
        ({"values": "- a"}, "helm.values"),
        ({"values": "replicas=3"}, "helm.values"),
        ({"values": "a: 1\n---\nb: 2"}, "helm.values"),
        ({"values": "a: \x00"}, "helm.values"),
        ({"values_files": ["f"] * 65}, "helm.valuesFiles"),
        ({"values_files": ["f" * 1025]}, "helm.valuesFiles"),
        ({"url": "ftp://charts.example.org", "chart": "c"}, "helm.url"),
        ({"url": "https://", "chart": "c"}, "helm.url"),
        ({"url": "https://ada@charts.example.org", "chart": "c"}, "helm.url"),
        ({"url": "https://:word@charts.example.org", "chart": "c"}, "helm.url"),
        ({"url": "https://charts.example.org/shop/../bank", "chart": "c"}, "helm.url"),
        ({"url": "oci://charts.example.org/shop/%2e%2e/bank", "chart": "c"}, "helm.url"),
        ({"url": "https://charts.example.org?x=y", "chart": "c"}, "helm.url"),
        ({"url": "https://charts.example.org"}, "helm.chart"),
        ({"url": "ftp://charts.example.org/{{ region }}", "chart": "c"}, "helm.url"),
        ({"url": "file:///{{ region }}", "chart": "c"}, "helm.url"),
        ({"url": "https:///{{ region }}", "chart": "c"}, "helm.url"),
        ({"url": "https://ada@charts.example.org/${region}", "chart": "c"}, "helm.url"),
        ({"url": "https://:word@charts.example.org/{% x %}", "chart": "c"}, "helm.url"),
        ({"url": "https://{{ host }}/{{ path }}"}, "helm.chart"),
    ],
)
def test_invalid_helm_settings_are_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as error:
        check_helm(given)
    assert error.value.field == field


def test_a_release_has_the_name_of_its_service() -> None:
    release = release_of("web", "shop", None)
    assert (release.release, release.namespace, release.chart) == ("web", "shop", None)
    given = {"release": "web2", "chart": "nginx", "values_files": ["a"], "ignore_crds": True}
    release = release_of("web", "shop", given)
    assert (release.release, release.chart, release.values_files) == ("web2", "nginx", ("a",))
    assert (release.ignore_crds, release.ignore_hooks) == (True, False)


def test_a_service_of_a_helm_repository_follows_its_chart() -> None:
    helm = {"chart": "nginx", "version": "1.x"}
    ref = ref_of_chart(helm)
    assert follows_chart(ref, helm)
    assert not follows_chart("main", helm)
    assert not follows_chart(ref, {**helm, "url": "https://charts.example.org"})
    assert not follows_chart(ref, None)
    with pytest.raises(Invalid) as error:
        ref_of_chart({"version": "1.x"})
    assert error.value.field == "helm.chart"


def metric(address: str = "mon/prometheus:9090", query: str = "up") -> MetricCheck:
    return MetricCheck(address, query, 1.0, Comparison.AT_LEAST)


@pytest.mark.parametrize(
    "verification",
    [
        Verification(1, 0),
        Verification(2_592_000, 1_000_000),
        Verification(1, metric=metric("a" * 512, "q" * 4096)),
    ],
)
def test_a_verification_at_its_limits_is_accepted(verification: Verification) -> None:
    check_verification(verification, "v")


@pytest.mark.parametrize(
    ("verification", "field"),
    [
        (Verification(0), "v"),
        (Verification(2_592_001), "v"),
        (Verification(1, -1), "v"),
        (Verification(1, 1_000_001), "v"),
        (Verification(1, metric=metric(address="")), "v.metric.address"),
        (Verification(1, metric=metric(address="a" * 513)), "v.metric.address"),
        (Verification(1, metric=metric(query="")), "v.metric.query"),
        (Verification(1, metric=metric(query="q" * 4097)), "v.metric.query"),
    ],
)
def test_a_verification_beyond_its_limits_is_named(verification: Verification, field: str) -> None:
    with pytest.raises(Invalid) as error:
        check_verification(verification, "v")
    assert error.value.field == field
