"""Which addresses sinks may have, and what routers let through."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.domain.commit_outcomes import default_api_url
from controlplane.domain.notification_bodies import decode_webhook_secret, new_secret
from controlplane.domain.notifications import (
    Notification,
    NotificationKind,
    Router,
    RouterFilter,
    Severity,
    SinkType,
    delivery_retry_delay,
    notification,
)
from controlplane.notify.addresses import AddressGuard
from controlplane.usecases.notifications import checked_host
from core.errors import Invalid, Unavailable

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ROUTER = Router("r", "r", NOW, NOW)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "ff02::1",
    ],
)
async def test_private_addresses_are_refused_however_they_are_written(address: str) -> None:
    with pytest.raises(Unavailable, match="private"):
        await AddressGuard().resolve(address, 443)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
async def test_public_addresses_are_let_through(address: str) -> None:
    assert [str(one) for one in await AddressGuard().resolve(address, 443)] == [address]


async def test_the_operator_may_allow_a_network_and_no_more() -> None:
    addresses = AddressGuard(("10.1.0.0/16",))
    assert [str(one) for one in await addresses.resolve("10.1.2.3", 443)] == ["10.1.2.3"]
    with pytest.raises(Unavailable):
        await addresses.resolve("10.2.0.1", 443)


async def test_a_name_is_judged_by_each_of_its_addresses() -> None:
    with pytest.raises(Unavailable, match="localhost has a private address"):
        await AddressGuard().resolve("localhost", 443)


def test_a_network_that_is_none_is_named() -> None:
    with pytest.raises(Invalid, match=r"'10\.1' is not a network"):
        AddressGuard(("10.1",))


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
        (replace(ROUTER, events=("service.*",)), True),
        (replace(ROUTER, events=("pipeline.*", "service.failed")), True),
        (replace(ROUTER, events=("pipeline.*",)), False),
        (replace(ROUTER, severity=Severity.ERROR), True),
        (replace(ROUTER, project_id="p"), True),
        (replace(ROUTER, project_id="q"), False),
        (replace(ROUTER, filters=(RouterFilter(cluster_id="c"),)), True),
        (replace(ROUTER, filters=(RouterFilter(cluster_id="d"),)), False),
        (replace(ROUTER, filters=(RouterFilter(cluster_id="d"), RouterFilter(regex="shop"))), True),
        (replace(ROUTER, filters=(RouterFilter(cluster_id="c", regex="^in"),)), False),
    ],
)
def test_a_router_takes_what_it_asks_for(router: Router, matches: bool) -> None:
    assert router.matches(news(project_id="p", cluster_id="c")) is matches


def test_little_things_do_not_reach_who_wants_the_worst() -> None:
    one = notification(NotificationKind.SERVICE_UPDATE, NOW, "x")
    assert not replace(ROUTER, severity=Severity.WARNING).matches(one)


@pytest.mark.parametrize("regex", ["(", "x" * 201, r"(a)\1", "(?=a)"])
def test_patterns_that_are_none_are_refused(regex: str) -> None:
    with pytest.raises(Invalid, match="regex"):
        replace(ROUTER, filters=(RouterFilter(regex=regex),)).check()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("regex", ["(a+)+b", "a*a*a*a*b", "(a|a)*b"])
def test_no_pattern_holds_the_news_up(regex: str) -> None:
    """Python's own engine would be at it for minutes or years."""
    router = replace(ROUTER, filters=(RouterFilter(regex=regex),))
    router.check()
    assert not router.matches(notification(NotificationKind.SERVICE_FAILED, NOW, "a" * 1_000))


def test_a_stored_pattern_that_is_no_longer_taken_lets_all_through() -> None:
    assert replace(ROUTER, filters=(RouterFilter(regex="(?!dev)"),)).matches(news())


def test_waits_double_up_to_an_hour() -> None:
    seconds = [
        delivery_retry_delay(attempts).total_seconds() for attempts in (1, 2, 3, 10, 11, 500)
    ]
    assert seconds == [5, 10, 20, 2560, 3600, 3600]


@pytest.mark.parametrize(
    ("type", "repository", "api"),
    [
        (SinkType.GITHUB, "https://github.com/a/b.git", "https://api.github.com"),
        (SinkType.GITHUB, "git@git.example.org:a/b.git", "https://git.example.org/api/v3"),
        (SinkType.GITLAB, "https://gitlab.example.org/a/b", "https://gitlab.example.org/api/v4"),
    ],
)
def test_the_api_is_that_of_the_repositorys_host(type: SinkType, repository: str, api: str) -> None:
    assert default_api_url(type, repository) == api
