"""Lookups of the authorizer, its cache, and the age of cached verdicts."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from core.errors import Forbidden, Invalid, LimitExceeded, Unauthenticated, Unavailable
from core.identity import ClusterId, TokenKind, new_token
from core.mux.mux import Mux
from proxy.domain.access import Credential, CredentialKind, Impersonation, LastContact
from proxy.domain.attributes import read_attributes
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import StreamLimits, Timeouts
from proxy.gateway.authorize.agents import AgentLocator
from proxy.gateway.authorize.authorizer import RequestAuthorizer
from proxy.gateway.authorize.impersonation import parse_impersonation
from proxy.gateway.record.metrics import ProxyMetrics
from proxy.gateway.record.open_requests import OpenRequests
from proxy.gateway.record.recorder import NoSessionRecorder, RequestRecorder
from tests.fakes.kube_proxy import ANN, CLUSTER, FakeInstallation
from tests.fakes.tunnel import ManualLoop

PODS = read_attributes("GET", "/api/v1/pods")


def bearer(token: str) -> Credential:
    """A token as a request shows it."""
    return Credential(CredentialKind.BEARER, token)


ANN_TOKEN, ROOT_TOKEN = bearer("ann-token"), bearer("root-token")


class FakeLink:
    """The part of a link that the authorizer reads."""

    accepts_streams = True
    crowded = False
    features = 0

    def __init__(self) -> None:
        self.streams: dict[int, object] = {}


class AuthorizerStand:
    """A `RequestAuthorizer` with its surroundings."""

    def __init__(self, limits: StreamLimits | None = None) -> None:
        self.clock = ManualLoop()
        self.installation = FakeInstallation()
        self.link: FakeLink | None = FakeLink()
        one = self.installation
        limits = limits or StreamLimits()
        agents = AgentLocator(self, one, self.clock, limits.per_agent)
        self.authorization = RequestAuthorizer(one, one, agents, self.clock, Timeouts())
        self.recorder = RequestRecorder(
            one, NoSessionRecorder(), OpenRequests(limits), ProxyMetrics()
        )

    def find(self, cluster_id: ClusterId) -> Mux | None:
        return cast("Mux | None", self.link if cluster_id == CLUSTER else None)

    async def reach(self, cluster_id: ClusterId) -> Mux | None:
        return self.find(cluster_id)

    def record(self, *, upgrade: bool = False) -> RequestRecord:
        return RequestRecord("0" * 32, self.clock.now(), "", "", "dev", "GET", upgrade, PODS, ANN)


class Gate:
    """Holds up answers of the installation until they are let in."""

    def __init__(self, stand: AuthorizerStand) -> None:
        self._open = asyncio.Event()
        self._waits = asyncio.Event()
        stand.installation.slow = self._hold

    async def _hold(self) -> None:
        self._waits.set()
        await self._open.wait()

    async def reached(self) -> None:
        """Wait until somebody waits, and everybody who was started has asked."""
        await self._waits.wait()
        await asyncio.sleep(0)

    async def open(self) -> None:
        """Answer, from now on."""
        await self.reached()
        self._open.set()


@pytest.fixture
def stand() -> AuthorizerStand:
    return AuthorizerStand()


async def test_identities_are_asked_once_in_a_while(stand: AuthorizerStand) -> None:
    """30 seconds, or until somebody is revoked."""
    for _ in range(3):
        assert await stand.authorization.identify(ANN_TOKEN, "here") == ANN
    assert stand.installation.asked == ["ann-token"]
    stand.clock.advance(31)
    await stand.authorization.identify(ANN_TOKEN, "here")
    stand.authorization.forget(user=None, token="other", session=None)
    await stand.authorization.identify(ANN_TOKEN, "here")
    assert len(stand.installation.asked) == 2
    stand.authorization.forget(user=None, token="t1", session=None)
    await stand.authorization.identify(ANN_TOKEN, "here")
    assert len(stand.installation.asked) == 3


async def test_concurrent_equal_checks_share_one_request(stand: AuthorizerStand) -> None:
    """A pool of connections whose verdict got too old asks once, each of another kind again."""
    gate = Gate(stand)
    asking = [
        asyncio.ensure_future(stand.authorization.identify(ANN_TOKEN, "here")) for _ in range(5)
    ]
    await gate.open()
    assert await asyncio.gather(*asking) == [ANN] * 5
    assert stand.installation.asked == ["ann-token"]
    gate = Gate(stand)
    asking = [
        asyncio.ensure_future(stand.authorization.admit(ANN, "dev", PODS, [])) for _ in range(5)
    ]
    other = replace(PODS, namespace="a")
    asking.append(asyncio.ensure_future(stand.authorization.admit(ANN, "dev", other, [])))
    await gate.open()
    await asyncio.gather(*asking)
    assert stand.installation.checked == [PODS, other]


async def test_an_asker_that_goes_away_leaves_the_question_to_others(
    stand: AuthorizerStand,
) -> None:
    """Its client has hung up; those who waited with it ask again, once."""
    gate = Gate(stand)
    first, *others = [
        asyncio.ensure_future(stand.authorization.identify(ANN_TOKEN, "here")) for _ in range(4)
    ]
    await gate.reached()
    gate = Gate(stand)
    first.cancel()
    await gate.open()
    assert await asyncio.gather(*others) == [ANN] * 3
    assert stand.installation.asked == ["ann-token"] * 2


async def test_all_waiting_callers_get_the_refusal(stand: AuthorizerStand) -> None:
    """And no caller gets an answer from before rights changed."""
    gate = Gate(stand)
    before = [
        asyncio.ensure_future(stand.authorization.identify(ANN_TOKEN, "here")) for _ in range(2)
    ]
    await gate.reached()
    del stand.installation.users["ann-token"]
    stand.authorization.forget(user=ANN.user_id, token=None, session=None)
    after = [
        asyncio.ensure_future(stand.authorization.identify(ANN_TOKEN, "here")) for _ in range(2)
    ]
    await gate.open()
    results = await asyncio.gather(*before, *after, return_exceptions=True)
    assert results[:2] == [ANN] * 2
    assert [type(one) for one in results[2:]] == [Unauthenticated] * 2
    assert stand.authorization.cached_results == 0
    assert stand.installation.asked == ["ann-token"] * 2


async def test_expiry_counts_even_for_remembered_identities(stand: AuthorizerStand) -> None:
    """An expired token is refused in the second it expires."""
    ends = stand.clock.now() + timedelta(seconds=10)
    stand.installation.users["ann-token"] = replace(ANN, expires_at=ends)
    await stand.authorization.identify(ANN_TOKEN, "here")
    stand.clock.advance(11)
    with pytest.raises(Unauthenticated, match="expired"):
        await stand.authorization.identify(ANN_TOKEN, "here")


@pytest.mark.parametrize("kind", [TokenKind.AGENT, TokenKind.BOOTSTRAP])
async def test_tokens_of_machines_are_not_for_users(
    stand: AuthorizerStand, kind: TokenKind
) -> None:
    """Refused before anybody is asked."""
    with pytest.raises(Unauthenticated):
        await stand.authorization.identify(bearer(new_token(kind)), "here")
    assert stand.installation.asked == []


async def test_recall_needs_every_verdict(stand: AuthorizerStand) -> None:
    """Known user, known verdict, a link with room; else nothing is recalled."""
    authorization = stand.authorization
    assert authorization.find_cached(ANN_TOKEN, "dev", PODS) is None
    identity = await authorization.identify(ANN_TOKEN, "here")
    assert authorization.find_cached(ANN_TOKEN, "dev", PODS) is None
    await authorization.admit(identity, "dev", PODS, [])
    verdict = authorization.find_cached(ANN_TOKEN, "dev", PODS)
    assert verdict is not None
    admission = verdict.authorized
    assert (admission.identity, admission.grant.cluster_id) == (ANN, CLUSTER)
    assert authorization.find_cached(None, "dev", PODS) is None
    assert authorization.find_cached(ANN_TOKEN, "other", PODS) is None
    assert authorization.find_cached(ANN_TOKEN, "dev", replace(PODS, namespace="a")) is None
    assert stand.link is not None
    stand.link.crowded = True
    assert authorization.find_cached(ANN_TOKEN, "dev", PODS) is None
    stand.link.crowded = False
    stand.clock.advance(6)
    assert authorization.find_cached(ANN_TOKEN, "dev", PODS) is None


async def test_a_verdict_ends_with_the_grant_of_the_user(stand: AuthorizerStand) -> None:
    authorization, end = stand.authorization, stand.clock.now() + timedelta(seconds=2)
    stand.installation.grants_end = end
    identity = await authorization.identify(ANN_TOKEN, "here")
    await authorization.admit(identity, "dev", PODS, [])
    verdict = authorization.find_cached(ANN_TOKEN, "dev", PODS)
    assert verdict is not None and verdict.until == stand.clock.monotonic() + 2
    stand.clock.advance(2)
    assert not authorization.is_valid(verdict)
    assert authorization.find_cached(ANN_TOKEN, "dev", PODS) is None


async def test_revocation_drops_all_verdicts(stand: AuthorizerStand) -> None:
    """For any user."""
    identity = await stand.authorization.identify(ANN_TOKEN, "here")
    await stand.authorization.admit(identity, "dev", PODS, [])
    stand.authorization.forget(user=None, token=None, session=None)
    assert stand.authorization.find_cached(ANN_TOKEN, "dev", PODS) is None


async def test_the_verdict_cache_is_bounded_and_expires(stand: AuthorizerStand) -> None:
    """No verdict on a path longer than usual, and none that nobody may use any more."""
    identity = await stand.authorization.identify(ANN_TOKEN, "here")
    await stand.authorization.admit(identity, "dev", PODS, [])
    longest = read_attributes("GET", "/api/v1/namespaces/" + "n" * 8000)
    await stand.authorization.admit(identity, "dev", longest, [])
    assert stand.authorization.cached_results == 2
    stand.clock.advance(4)
    await stand.authorization.admit(identity, "dev", replace(PODS, namespace="a"), [])
    stand.clock.advance(2)
    stand.authorization.sweep()
    assert stand.authorization.cached_results == 2
    stand.clock.advance(30)
    stand.authorization.sweep()
    assert stand.authorization.cached_results == 0


async def test_a_verdict_from_before_a_change_is_not_remembered(stand: AuthorizerStand) -> None:
    """Rights that change while they are read: the answer may be the old one, the next is not."""

    async def changes() -> None:
        stand.authorization.forget(user=ANN.user_id, token=None, session=None)

    stand.installation.slow = changes
    identity = await stand.authorization.identify(ANN_TOKEN, "here")
    await stand.authorization.admit(identity, "dev", PODS, [])
    stand.installation.slow = None
    stand.installation.forbidden.add("ann")
    with pytest.raises(Forbidden):
        await stand.authorization.admit(identity, "dev", PODS, [])
    del stand.installation.users["ann-token"]
    with pytest.raises(Unauthenticated):
        await stand.authorization.identify(ANN_TOKEN, "here")


async def test_absent_and_overloaded_links_are_refused(stand: AuthorizerStand) -> None:
    """503 with an age, 429."""
    contact = LastContact(stand.clock.now() - timedelta(hours=5, minutes=2))
    stand.installation.seen = contact
    assert stand.link is not None
    stand.link.crowded = True
    with pytest.raises(LimitExceeded):
        await stand.authorization.admit(ANN, "dev", PODS, [])
    stand.link = None
    with pytest.raises(Unavailable, match="last seen 5h02m ago; look at its log"):
        await stand.authorization.admit(ANN, "dev", PODS, [])
    stand.installation.seen = replace(contact, problem="the agent reports: no tunnel: why")
    with pytest.raises(Unavailable, match="last seen 5h02m ago; the agent reports: no tunnel: why"):
        await stand.authorization.admit(ANN, "dev", PODS, [])


async def test_impersonation_needs_the_right(stand: AuthorizerStand) -> None:
    """And is then what was asked for, whole."""
    asked = [("impersonate-user", "bob"), ("impersonate-extra-a%2Fb", "c")]
    with pytest.raises(Forbidden):
        await stand.authorization.admit(ANN, "dev", PODS, asked)
    root = await stand.authorization.identify(ROOT_TOKEN, "here")
    admission = await stand.authorization.admit(root, "dev", PODS, asked)
    assert admission.acting_as == Impersonation("bob", extra=(("a/b", "c"),))


async def test_every_user_is_authenticated_anyway(stand: AuthorizerStand) -> None:
    """The group needs no right, and the others still do."""
    root = await stand.authorization.identify(ROOT_TOKEN, "here")
    asked = [("impersonate-user", "bob"), ("impersonate-group", "system:authenticated")]
    admission = await stand.authorization.admit(root, "dev", PODS, asked)
    assert admission.acting_as == Impersonation("bob")
    with pytest.raises(Forbidden, match="a role must list group:system:unauthenticated,"):
        asked.append(("impersonate-group", "system:unauthenticated"))
        await stand.authorization.admit(root, "dev", PODS, asked)
    with pytest.raises(Invalid):
        await stand.authorization.admit(root, "dev", PODS, asked[1:])


@pytest.mark.parametrize(
    "asked",
    [
        [("impersonate-group", "a")],
        [("impersonate-user", "a"), ("impersonate-user", "b")],
        [("impersonate-user", "a"), ("impersonate-uid", "1"), ("impersonate-uid", "2")],
        [("impersonate-user", "a"), ("impersonate-other", "b")],
    ],
)
def test_half_an_identity_is_refused(asked: list[tuple[str, str]]) -> None:
    """No guess at whom a client wants to be."""
    with pytest.raises(Invalid):
        parse_impersonation(asked)


def test_open_requests_are_counted() -> None:
    """By user and cluster, in all, and unfinished upgrades by user."""
    recorder = AuthorizerStand(StreamLimits(per_user_and_cluster=2, upgrades_per_user=1)).recorder
    stand = AuthorizerStand()
    first, second = stand.record(upgrade=True), stand.record(upgrade=True)
    recorder.enter(first)
    with pytest.raises(LimitExceeded, match="upgrade"):
        recorder.enter(second)
    recorder.upgraded(first)
    recorder.enter(second)
    with pytest.raises(LimitExceeded, match='2 requests open for "ann" on "dev"'):
        recorder.enter(stand.record())
    recorder.end(first, entered=True, upgraded=True)
    recorder.enter(stand.record())
    whole = AuthorizerStand(StreamLimits(per_process=1)).recorder
    whole.enter(first)
    with pytest.raises(LimitExceeded):
        whole.enter(replace(second, handle="other"))
