"""Bundles on trial: found good or bad by the agent, and taken back with nobody to ask."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import Invalid
from core.spec.bundle import Bundle, make_bundle
from core.spec.desired import BundleSpec, Desired
from core.spec.status import Phase
from core.spec.sync import SyncOptions
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification
from syncagent.domain.verification import (
    TIMEOUT_MS,
    BundleVerification,
    ObservedService,
    VerificationOutcome,
    judge_bundle,
)
from syncagent.kube.metrics import value_of
from syncagent.state.desired import dump_desired, load_desired
from tests.fakes.engine import Stand, config

METRIC = MetricCheck("monitoring/prometheus:9090", "errors", 0.1, Comparison.AT_MOST)
OPTIONS = SyncOptions(create_namespace=False)
SOAK = Verification(soak_s=30, max_restarts=0)


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


def want(
    stand: Stand, bundle: Bundle, policy: Verification | None = SOAK, *, lifted: bool = False
) -> Desired:
    """The newest word on service `s`."""
    stand.hub.bundles[bundle.digest] = bundle.data
    stand.sequence += 1
    spec = BundleSpec("s", "prod", bundle.digest, len(bundle.data), OPTIONS)
    desired = Desired("s", stand.sequence, spec, verification=policy, lifted=lifted)
    stand.engine.desire(desired)
    return desired


def bundle(*names: str) -> Bundle:
    return make_bundle([config(name) for name in names])


async def good_and_bad(stand: Stand) -> tuple[Bundle, Bundle]:
    """A bundle that was found good, and a newer one that was found bad."""
    good, bad = bundle("a"), bundle("a", "b")
    want(stand, good)
    await stand.until(lambda: len(stand.hub.verdicts) == 1)
    stand.cluster.fail["b"] = Invalid("not like that")
    want(stand, bad)
    await stand.until(lambda: len(stand.hub.verdicts) == 2)
    stand.cluster.fail.clear()
    return good, bad


def names(stand: Stand) -> set[str]:
    return {key[3] for key in stand.cluster.objects}


async def test_a_bundle_is_good_once_it_has_soaked(stand: Stand) -> None:
    """Not before its time; then it is said once."""
    want(stand, bundle("a"))
    await stand.phase(Phase.HEALTHY)
    await stand.clock.advance(20)
    assert stand.hub.verdicts == []
    await stand.until(lambda: stand.hub.verdicts)
    await stand.clock.advance(60)
    (one,) = stand.hub.verdicts
    assert (one.ok, one.sequence, one.digest) == (True, 1, bundle("a").digest)


async def test_a_bad_bundle_is_taken_back_with_nobody_to_ask(stand: Stand) -> None:
    """The last good one runs again from this disk; the status says why it is held."""
    good, bad = await good_and_bad(stand)
    verdict = stand.hub.verdicts[-1]
    assert (verdict.ok, verdict.digest, verdict.instead) == (False, bad.digest, good.digest)
    assert "not like that" in verdict.reason
    await stand.phase(Phase.HEALTHY)
    assert names(stand) == {"a"}
    last = stand.hub.statuses[-1]
    assert (last.digest, last.sequence) == (good.digest, 2)
    assert "quarantined; the last good bundle is applied" in last.message


async def test_a_hold_outlasts_restarts_and_newer_words(stand: Stand) -> None:
    """The same bundle under a higher sequence is not tried; another one is."""
    good, bad = await good_and_bad(stand)
    await stand.phase(Phase.HEALTHY)
    await stand.restart()
    want(stand, bad)
    await stand.until(lambda: stand.hub.statuses and stand.hub.statuses[-1].sequence == 3)
    assert stand.hub.statuses[-1].digest == good.digest
    assert "quarantined" in stand.hub.statuses[-1].message
    assert names(stand) == {"a"}
    want(stand, bundle("a", "c"))
    await stand.until(lambda: names(stand) == {"a", "c"})
    await stand.until(lambda: stand.hub.verdicts[-1].ok)
    assert stand.hub.statuses[-1].message == ""


async def test_a_person_lifts_the_hold(stand: Stand) -> None:
    """The failed bundle is tried once more, and may be good now."""
    _, bad = await good_and_bad(stand)
    want(stand, bad, lifted=True)
    await stand.until(lambda: names(stand) == {"a", "b"})
    await stand.until(lambda: stand.hub.verdicts[-1].ok)
    assert stand.hub.verdicts[-1].digest == bad.digest


async def test_without_a_good_one_before_there_is_nothing_to_go_back_to(stand: Stand) -> None:
    """It is said, and what is there stays."""
    stand.cluster.fail["b"] = Invalid("not like that")
    want(stand, bundle("a", "b"))
    await stand.until(lambda: stand.hub.verdicts)
    assert (stand.hub.verdicts[0].ok, stand.hub.verdicts[0].instead) == (False, "")
    assert names(stand) == {"a"}


async def test_without_a_policy_nothing_is_on_trial(stand: Stand) -> None:
    """A word without verification is applied and that is all."""
    want(stand, bundle("a"), None)
    await stand.phase(Phase.HEALTHY)
    await stand.clock.advance(120)
    assert stand.hub.verdicts == []


def seen(
    phase: Phase = Phase.HEALTHY, metric: float | None = None, **restarts: int
) -> ObservedService:
    return ObservedService(phase, "Deployment prod/web: crashes", restarts, metric)


def course(
    policy: Verification, *looks: tuple[int, ObservedService]
) -> list[tuple[VerificationOutcome, str]]:
    """Observations, by seconds after the trial has begun."""
    trial, found = BundleVerification("s").begin("sha256:1", 1, looks[0][1].restarts), []
    for at, look in looks:
        trial, finding, reason = judge_bundle(trial, policy, look, 1 + at * 1000)
        found.append((finding, reason))
    return found


def ends(
    policy: Verification, *looks: tuple[int, ObservedService]
) -> tuple[VerificationOutcome, str]:
    return course(policy, *looks)[-1]


def test_health_counts_without_a_break() -> None:
    """Time before it was not healthy does not count."""
    flapping = [(0, seen()), (20, seen(Phase.APPLIED)), (31, seen()), (60, seen()), (61, seen())]
    assert [one for one, _ in course(SOAK, *flapping)] == [VerificationOutcome.PENDING] * 4 + [
        VerificationOutcome.GOOD
    ]


def test_a_short_failure_is_forgiven_a_lasting_one_is_not() -> None:
    """20 s of failing are too long, and the reason is the object's."""
    bad = seen(Phase.DEGRADED)
    assert ends(SOAK, (0, bad), (15, bad))[0] == VerificationOutcome.PENDING
    assert ends(SOAK, (0, bad), (10, seen()), (25, bad))[0] == VerificationOutcome.PENDING
    assert ends(SOAK, (0, bad), (21, bad)) == (
        VerificationOutcome.BAD,
        "Deployment prod/web: crashes",
    )


def test_restarts_since_the_beginning_count() -> None:
    """Those of before do not; those of new pods do."""
    two = replace(SOAK, max_restarts=2)
    assert ends(two, (0, seen(a=5)), (31, seen(a=6, b=1)))[0] == VerificationOutcome.GOOD
    assert ends(two, (0, seen(a=5)), (31, seen(a=6, b=2))) == (
        VerificationOutcome.BAD,
        "3 container restarts, more than the limit of 2",
    )


def test_a_metric_must_hold() -> None:
    """One breach may be an odd reading, two in a row are not; nothing said is not good."""
    checked = replace(SOAK, metric=METRIC)
    good, breach, silent = seen(metric=0.1), seen(metric=0.2), seen(metric=None)
    odd = course(checked, (0, breach), (10, good), (20, breach), (31, good))
    assert [one for one, _ in odd] == [VerificationOutcome.PENDING] * 3 + [VerificationOutcome.GOOD]
    twice = course(checked, (0, good), (10, breach), (20, breach))
    assert [one for one, _ in twice[:2]] == [VerificationOutcome.PENDING] * 2
    assert twice[2] == (VerificationOutcome.BAD, "errors <= 0.1 does not hold: 0.2")
    late = TIMEOUT_MS // 1000 + 31
    assert ends(checked, (0, silent), (31, silent))[0] == VerificationOutcome.PENDING
    assert "has no result" in ends(checked, (0, silent), (late, silent))[1]
    assert (
        ends(checked, (0, good), (31, seen(metric=float("nan"))))[0] == VerificationOutcome.PENDING
    )


def test_a_release_that_never_gets_healthy_fails() -> None:
    """There is a time for it."""
    slow = seen(Phase.APPLIED)
    late = TIMEOUT_MS // 1000 + 31
    for policy in (SOAK, replace(SOAK, metric=METRIC)):
        assert "not healthy for 30 s" in ends(policy, (0, slow), (late, slow))[1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"data":{"resultType":"scalar","result":[1,"0.5"]}}', 0.5),
        ('{"data":{"resultType":"vector","result":[{"value":[1,"2"]}]}}', 2.0),
        ('{"data":{"resultType":"vector","result":[]}}', None),
        ('{"data":{"resultType":"vector","result":[{"value":[1,"2"]},{"value":[1,"3"]}]}}', None),
        ('{"data":{"resultType":"matrix","result":[]}}', None),
    ],
)
def test_one_value_or_none(text: str, value: float | None) -> None:
    """No series and several say nothing."""
    assert value_of(text) == value


@pytest.mark.parametrize("text", ["", "[]", "<html>", '{"data":{"resultType":"vector"}}'])
def test_other_answers_are_named(text: str) -> None:
    """An invalid response of Prometheus is not taken for a result."""
    with pytest.raises(Invalid, match="Prometheus"):
        value_of(text)


def test_a_policy_is_kept_on_disk() -> None:
    """All of it comes back."""
    policy: dict[str, Any] = {"soak_s": 5, "max_restarts": 1, "metric": METRIC}
    spec = BundleSpec("s", "prod", "sha256:1", 1)
    desired = Desired("s", 1, spec, verification=Verification(**policy), lifted=True)
    assert load_desired(dump_desired(desired)) == desired
