"""Allowed URLs and secrets of sinks, and filters of routers."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.notifications.model.notification import (
    Router,
    RouterFilter,
    RouterRule,
    delivery_retry_delay,
)
from controlplane.notifications.model.sink_kind import CommitSink, checked_host
from controlplane.notifications.sinks.github import GithubSink
from controlplane.notifications.sinks.gitlab import GitlabSink
from controlplane.platform.notification import (
    Notification,
    NotificationKind,
    Severity,
    notification,
)
from controlplane.platform.webhook_signatures import decode_webhook_secret, new_secret
from core.errors import Invalid

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ROUTER = Router("r", "r", NOW, NOW)


def router_with(**rule: Any) -> Router:
    return replace(ROUTER, rule=RouterRule(**rule))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://example.org",
        "https://",
        "https://a:b@example.org",
        "https://x.org/\n",
        "https://[",
    ],
)
def test_urls_that_cannot_be_posted_to_are_refused(url: str) -> None:
    with pytest.raises(Invalid, match="url: must be a URL"):
        checked_host(url, ("https", "http"), "url")


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!!", "whsec_c2hvcnQ=", "x" * 40])
def test_weak_signing_secrets_are_refused(secret: str) -> None:
    with pytest.raises(Invalid, match="whsec_"):
        decode_webhook_secret(secret)


def test_a_made_secret_is_good() -> None:
    assert decode_webhook_secret(new_secret(bytes(range(32)))) == bytes(range(32))


def news(**more: str) -> Notification:
    return notification(NotificationKind.SERVICE_FAILED, NOW, "shop in dev has failed", **more)


@pytest.mark.parametrize(
    ("router", "matches"),
    [
        (ROUTER, True),
        (router_with(events=("service.*",)), True),
        (router_with(events=("pipeline.*", "service.failed")), True),
        (router_with(events=("pipeline.*",)), False),
        (router_with(severity=Severity.ERROR), True),
        (replace(ROUTER, project_id="p"), True),
        (replace(ROUTER, project_id="q"), False),
        (router_with(filters=(RouterFilter(cluster_id="c"),)), True),
        (router_with(filters=(RouterFilter(cluster_id="d"),)), False),
        (router_with(filters=(RouterFilter(cluster_id="d"), RouterFilter(regex="shop"))), True),
        (router_with(filters=(RouterFilter(cluster_id="c", regex="^in"),)), False),
        (router_with(filters=(RouterFilter(labels="team=a,env=prod"),)), True),
        (router_with(filters=(RouterFilter(labels="team=b"),)), False),
        (router_with(filters=(RouterFilter(labels="!env"),)), False),
        (router_with(filters=(RouterFilter(cluster_id="d", labels="team=a"),)), False),
    ],
)
def test_a_router_takes_what_it_asks_for(router: Router, matches: bool) -> None:
    labels = {"team": "a"}, {"env": "prod"}
    assert router.matches(news(project_id="p", cluster_id="c"), *labels) is matches


def test_selectors_that_are_none_are_refused() -> None:
    with pytest.raises(Invalid, match="filters.labels: found '=' at character 5"):
        RouterRule(filters=(RouterFilter(labels="a=b,=c"),)).checked()


def test_little_things_do_not_reach_who_wants_the_worst() -> None:
    one = notification(NotificationKind.SERVICE_UPDATE, NOW, "x")
    assert not router_with(severity=Severity.WARNING).matches(one)


@pytest.mark.parametrize("regex", ["(", "x" * 201, r"(a)\1", "(?=a)"])
def test_patterns_that_are_none_are_refused(regex: str) -> None:
    with pytest.raises(Invalid, match="regex"):
        RouterRule(filters=(RouterFilter(regex=regex),)).checked()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("regex", ["(a+)+b", "a*a*a*a*b", "(a|a)*b"])
def test_no_pattern_holds_the_news_up(regex: str) -> None:
    """Python's own engine would be at it for minutes or years."""
    router = router_with(filters=(RouterFilter(regex=regex),))
    router.rule.checked()
    assert not router.matches(notification(NotificationKind.SERVICE_FAILED, NOW, "a" * 1_000))


def test_a_stored_pattern_that_is_no_longer_taken_lets_all_through() -> None:
    assert router_with(filters=(RouterFilter(regex="(?!dev)"),)).matches(news())


def test_waits_double_up_to_an_hour() -> None:
    seconds = [
        delivery_retry_delay(attempts).total_seconds() for attempts in (1, 2, 3, 10, 11, 500)
    ]
    assert seconds == [5, 10, 20, 2560, 3600, 3600]


@pytest.mark.parametrize(
    ("type", "repository", "api"),
    [
        (GithubSink, "https://github.com/a/b.git", "https://api.github.com"),
        (GithubSink, "git@git.example.org:a/b.git", "https://git.example.org/api/v3"),
        (GitlabSink, "https://gitlab.example.org/a/b", "https://gitlab.example.org/api/v4"),
    ],
)
def test_the_api_is_that_of_the_repositorys_host(
    type: type[CommitSink], repository: str, api: str
) -> None:
    assert type.default_api_url(repository) == api
