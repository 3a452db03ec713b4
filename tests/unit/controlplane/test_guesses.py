"""Wrong credentials: how many are looked up, and who goes on beside somebody who guesses."""

from contextlib import ExitStack

import pytest

from controlplane.access.operations import auth_throttle
from controlplane.access.operations.auth_throttle import (
    CACHE_SECONDS,
    MAX_CONCURRENT,
    MAX_PER_ADDRESS,
    MAX_TOTAL,
    WINDOW_SECONDS,
    AuthThrottle,
)
from core.errors import LimitExceeded, Unauthenticated, Unavailable
from tests.fakes.clock import FakeClock

HERE, THERE = "10.0.0.1", "10.0.0.2"


class Lookups:
    """Looks credentials up, of which some are good; counts how often."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.guesses = AuthThrottle(self.clock)
        self.good: set[str] = set()
        self.away = False
        self.made = 0

    def ask(self, key: str, source: str = HERE) -> None:
        with self.guesses.throttled(key, source):
            self.made += 1
            if self.away:
                raise Unavailable("the store is away")
            if key not in self.good:
                raise Unauthenticated(f"{key} is wrong")

    def guess(self, count: int, source: str = HERE) -> None:
        for number in range(count):
            with pytest.raises(Unauthenticated):
                self.ask(f"{source} {number} at {self.clock.monotonic()}", source)


@pytest.fixture
def lookups() -> Lookups:
    return Lookups()


async def test_the_same_wrong_one_is_looked_up_once_in_a_while(lookups: Lookups) -> None:
    """With the same words; rights that change may make it good."""
    for _ in range(2 * MAX_PER_ADDRESS):
        with pytest.raises(Unauthenticated, match="old is wrong"):
            lookups.ask("old")
    assert lookups.made == 1
    await lookups.clock.advance(CACHE_SECONDS)
    with pytest.raises(Unauthenticated, match="old is wrong"):
        lookups.ask("old")
    lookups.good.add("old")
    lookups.guesses.clear_rejected()
    lookups.ask("old")
    assert lookups.made == 3


async def test_an_address_guesses_no_more_than_it_may(lookups: Lookups) -> None:
    """Known users there go on, and so do others; a window later it may again."""
    lookups.good |= {"known", "new"}
    lookups.ask("known")
    lookups.guess(MAX_PER_ADDRESS)
    for key in ("another guess", "new"):
        with pytest.raises(LimitExceeded, match=HERE) as limited:
            lookups.ask(key)
        assert 0 < (limited.value.retry_after or 0) <= WINDOW_SECONDS
    lookups.ask("known")
    lookups.ask("new", THERE)
    await lookups.clock.advance(WINDOW_SECONDS)
    lookups.guess(MAX_PER_ADDRESS)


async def test_valid_tokens_and_store_outages_are_no_guesses(lookups: Lookups) -> None:
    """Many new users come from one address; an outage of the store is nobody's guess."""
    keys = [f"user {number}" for number in range(MAX_PER_ADDRESS + 1)]
    lookups.away = True
    for key in keys:
        with pytest.raises(Unavailable):
            lookups.ask(key)
    lookups.away = False
    lookups.good |= set(keys)
    for key in keys:
        lookups.ask(key)


async def test_what_fails_for_other_reasons_holds_no_place(lookups: Lookups) -> None:
    """Outages, and limits that a lookup meets, end like good credentials."""
    lookups.away = True
    for number in range(max(MAX_CONCURRENT, MAX_TOTAL) + 1):
        with pytest.raises(Unavailable):
            lookups.ask(f"user {number}")


async def test_known_credentials_give_no_place_back_that_they_did_not_take(
    lookups: Lookups,
) -> None:
    """Otherwise each use of a good token would open the limit for somebody else's guesses."""
    lookups.good.add("known")
    lookups.ask("known")
    for address in range(MAX_TOTAL // MAX_PER_ADDRESS):
        lookups.guess(MAX_PER_ADDRESS, f"10.1.0.{address}")
    for _ in range(5):
        lookups.ask("known")
    with pytest.raises(LimitExceeded, match="invalid tokens from this address"):
        lookups.ask("another guess", "")


async def test_good_credentials_leave_the_total_as_it_was(lookups: Lookups) -> None:
    keys = [f"user {number}" for number in range(MAX_TOTAL + 1)]
    lookups.good |= set(keys)
    for number, key in enumerate(keys):
        lookups.ask(key, f"10.1.{number % 100}.1")


async def test_many_good_ones_that_come_at_once_are_no_guesses(lookups: Lookups) -> None:
    """Users behind one address come back at the same time; of too many, some wait."""
    with ExitStack() as under_way:
        for number in range(MAX_CONCURRENT):
            under_way.enter_context(lookups.guesses.throttled(f"user {number}", HERE))
        with pytest.raises(LimitExceeded):
            lookups.ask("one more")
    lookups.guess(MAX_PER_ADDRESS)
    with pytest.raises(LimitExceeded):
        lookups.ask("another guess")


async def test_tickets_issued_here_are_no_guesses(lookups: Lookups) -> None:
    lookups.good.add("ticket")
    lookups.guesses.mark_accepted("ticket")
    lookups.guess(MAX_PER_ADDRESS)
    lookups.ask("ticket")


async def test_a_good_one_that_was_revoked_is_a_wrong_one(lookups: Lookups) -> None:
    """It goes on past no limit any more."""
    lookups.good.add("known")
    lookups.ask("known")
    lookups.good.clear()
    with pytest.raises(Unauthenticated):
        lookups.ask("known")
    lookups.guess(MAX_PER_ADDRESS)
    lookups.guesses.clear_rejected()
    with pytest.raises(LimitExceeded):
        lookups.ask("known")


async def test_many_addresses_guess_no_more_together(lookups: Lookups) -> None:
    for number in range(MAX_TOTAL // MAX_PER_ADDRESS):
        lookups.guess(MAX_PER_ADDRESS, f"10.1.0.{number}")
    with pytest.raises(LimitExceeded):
        lookups.ask("one more", THERE)


async def test_the_cache_of_refused_tokens_is_bounded(
    lookups: Lookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest goes first."""
    monkeypatch.setattr(auth_throttle, "MAX_CACHED", 3)
    for number in range(4):
        with pytest.raises(Unauthenticated):
            lookups.ask(f"{number}")
    with pytest.raises(Unauthenticated):
        lookups.ask("3")
    assert lookups.made == 4
    with pytest.raises(Unauthenticated):
        lookups.ask("0")
    assert lookups.made == 5


async def test_ipv4_addresses_in_ipv6_form_have_limits_of_their_own(lookups: Lookups) -> None:
    """A proxy that listens on IPv6 names all of its IPv4 clients like this."""
    lookups.guess(MAX_PER_ADDRESS, "::ffff:192.0.2.1")
    for address in ("::ffff:192.0.2.1", "192.0.2.1"):
        with pytest.raises(LimitExceeded):
            lookups.ask("guess", address)
    lookups.good.add("good")
    lookups.ask("good", "::ffff:192.0.2.2")
