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


class Office:
    """A desk with its surroundings."""

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

    def __init__(self, office: Office) -> None:
        self._open = asyncio.Event()
        self._waits = asyncio.Event()
        office.installation.slow = self._hold

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
def office() -> Office:
    return Office()


async def test_identities_are_asked_once_in_a_while(office: Office) -> None:
    """30 seconds, or until somebody is revoked."""
    for _ in range(3):
        assert await office.authorization.identify(ANN_TOKEN, "here") == ANN
    assert office.installation.asked == ["ann-token"]
    office.clock.advance(31)
    await office.authorization.identify(ANN_TOKEN, "here")
    office.authorization.forget(user=None, token="other", session=None)
    await office.authorization.identify(ANN_TOKEN, "here")
    assert len(office.installation.asked) == 2
    office.authorization.forget(user=None, token="t1", session=None)
    await office.authorization.identify(ANN_TOKEN, "here")
    assert len(office.installation.asked) == 3


async def test_concurrent_equal_checks_share_one_request(office: Office) -> None:
    """A pool of connections whose verdict got too old asks once, each of another kind again."""
    gate = Gate(office)
    asking = [
        asyncio.ensure_future(office.authorization.identify(ANN_TOKEN, "here")) for _ in range(5)
    ]
    await gate.open()
    assert await asyncio.gather(*asking) == [ANN] * 5
    assert office.installation.asked == ["ann-token"]
    gate = Gate(office)
    asking = [
        asyncio.ensure_future(office.authorization.admit(ANN, "dev", PODS, [])) for _ in range(5)
    ]
    other = replace(PODS, namespace="a")
    asking.append(asyncio.ensure_future(office.authorization.admit(ANN, "dev", other, [])))
    await gate.open()
    await asyncio.gather(*asking)
    assert office.installation.checked == [PODS, other]


async def test_an_asker_that_goes_away_leaves_the_question_to_others(office: Office) -> None:
    """Its client has hung up; those who waited with it ask again, once."""
    gate = Gate(office)
    first, *others = [
        asyncio.ensure_future(office.authorization.identify(ANN_TOKEN, "here")) for _ in range(4)
    ]
    await gate.reached()
    gate = Gate(office)
    first.cancel()
    await gate.open()
    assert await asyncio.gather(*others) == [ANN] * 3
    assert office.installation.asked == ["ann-token"] * 2


async def test_all_waiting_callers_get_the_refusal(office: Office) -> None:
    """And no caller gets an answer from before rights changed."""
    gate = Gate(office)
    before = [
        asyncio.ensure_future(office.authorization.identify(ANN_TOKEN, "here")) for _ in range(2)
    ]
    await gate.reached()
    del office.installation.users["ann-token"]
    office.authorization.forget(user=ANN.user_id, token=None, session=None)
    after = [
        asyncio.ensure_future(office.authorization.identify(ANN_TOKEN, "here")) for _ in range(2)
    ]
    await gate.open()
    results = await asyncio.gather(*before, *after, return_exceptions=True)
    assert results[:2] == [ANN] * 2
    assert [type(one) for one in results[2:]] == [Unauthenticated] * 2
    assert office.authorization.cached_results == 0
    assert office.installation.asked == ["ann-token"] * 2


async def test_expiry_counts_even_for_remembered_identities(office: Office) -> None:
    """An expired token is refused in the second it expires."""
    ends = office.clock.now() + timedelta(seconds=10)
    office.installation.users["ann-token"] = replace(ANN, expires_at=ends)
    await office.authorization.identify(ANN_TOKEN, "here")
    office.clock.advance(11)
    with pytest.raises(Unauthenticated, match="expired"):
        await office.authorization.identify(ANN_TOKEN, "here")


@pytest.mark.parametrize("kind", [TokenKind.AGENT, TokenKind.BOOTSTRAP])
async def test_tokens_of_machines_are_not_for_users(office: Office, kind: TokenKind) -> None:
    """Refused before anybody is asked."""
    with pytest.raises(Unauthenticated):
        await office.authorization.identify(bearer(new_token(kind)), "here")
    assert office.installation.asked == []


async def test_recall_needs_every_verdict(office: Office) -> None:
    """Known user, known verdict, a link with room; else nothing is recalled."""
    authorization = office.authorization
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
    assert office.link is not None
    office.link.crowded = True
    assert authorization.find_cached(ANN_TOKEN, "dev", PODS) is None
    office.link.crowded = False
    office.clock.advance(6)
    assert authorization.find_cached(ANN_TOKEN, "dev", PODS) is None


async def test_a_verdict_ends_with_the_grant_of_the_user(office: Office) -> None:
    authorization, end = office.authorization, office.clock.now() + timedelta(seconds=2)
    office.installation.grants_end = end
    identity = await authorization.identify(ANN_TOKEN, "here")
    await authorization.admit(identity, "dev", PODS, [])
    verdict = authorization.find_cached(ANN_TOKEN, "dev", PODS)
    assert verdict is not None and verdict.until == office.clock.monotonic() + 2
    office.clock.advance(2)
    assert not authorization.is_valid(verdict)
    assert authorization.find_cached(ANN_TOKEN, "dev", PODS) is None


async def test_revocation_drops_all_verdicts(office: Office) -> None:
    """For any user."""
    identity = await office.authorization.identify(ANN_TOKEN, "here")
    await office.authorization.admit(identity, "dev", PODS, [])
    office.authorization.forget(user=None, token=None, session=None)
    assert office.authorization.find_cached(ANN_TOKEN, "dev", PODS) is None


async def test_the_verdict_cache_is_bounded_and_expires(office: Office) -> None:
    """No verdict on a path longer than usual, and none that nobody may use any more."""
    identity = await office.authorization.identify(ANN_TOKEN, "here")
    await office.authorization.admit(identity, "dev", PODS, [])
    longest = read_attributes("GET", "/api/v1/namespaces/" + "n" * 8000)
    await office.authorization.admit(identity, "dev", longest, [])
    assert office.authorization.cached_results == 2
    office.clock.advance(4)
    await office.authorization.admit(identity, "dev", replace(PODS, namespace="a"), [])
    office.clock.advance(2)
    office.authorization.sweep()
    assert office.authorization.cached_results == 2
    office.clock.advance(30)
    office.authorization.sweep()
    assert office.authorization.cached_results == 0


async def test_a_verdict_from_before_a_change_is_not_remembered(office: Office) -> None:
    """Rights that change while they are read: the answer may be the old one, the next is not."""

    async def changes() -> None:
        office.authorization.forget(user=ANN.user_id, token=None, session=None)

    office.installation.slow = changes
    identity = await office.authorization.identify(ANN_TOKEN, "here")
    await office.authorization.admit(identity, "dev", PODS, [])
    office.installation.slow = None
    office.installation.forbidden.add("ann")
    with pytest.raises(Forbidden):
        await office.authorization.admit(identity, "dev", PODS, [])
    del office.installation.users["ann-token"]
    with pytest.raises(Unauthenticated):
        await office.authorization.identify(ANN_TOKEN, "here")


async def test_absent_and_overloaded_links_are_refused(office: Office) -> None:
    """503 with an age, 429."""
    contact = LastContact(office.clock.now() - timedelta(hours=5, minutes=2))
    office.installation.seen = contact
    assert office.link is not None
    office.link.crowded = True
    with pytest.raises(LimitExceeded):
        await office.authorization.admit(ANN, "dev", PODS, [])
    office.link = None
    with pytest.raises(Unavailable, match="last seen 5h02m ago; look at its log"):
        await office.authorization.admit(ANN, "dev", PODS, [])
    office.installation.seen = replace(contact, problem="the agent reports: no tunnel: why")
    with pytest.raises(Unavailable, match="last seen 5h02m ago; the agent reports: no tunnel: why"):
        await office.authorization.admit(ANN, "dev", PODS, [])


async def test_impersonation_needs_the_right(office: Office) -> None:
    """And is then what was asked for, whole."""
    asked = [("impersonate-user", "bob"), ("impersonate-extra-a%2Fb", "c")]
    with pytest.raises(Forbidden):
        await office.authorization.admit(ANN, "dev", PODS, asked)
    root = await office.authorization.identify(ROOT_TOKEN, "here")
    admission = await office.authorization.admit(root, "dev", PODS, asked)
    assert admission.acting_as == Impersonation("bob", extra=(("a/b", "c"),))


async def test_every_user_is_authenticated_anyway(office: Office) -> None:
    """The group needs no right, and the others still do."""
    root = await office.authorization.identify(ROOT_TOKEN, "here")
    asked = [("impersonate-user", "bob"), ("impersonate-group", "system:authenticated")]
    admission = await office.authorization.admit(root, "dev", PODS, asked)
    assert admission.acting_as == Impersonation("bob")
    with pytest.raises(Forbidden, match="a role must list group:system:unauthenticated,"):
        asked.append(("impersonate-group", "system:unauthenticated"))
        await office.authorization.admit(root, "dev", PODS, asked)
    with pytest.raises(Invalid):
        await office.authorization.admit(root, "dev", PODS, asked[1:])


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
    recorder = Office(StreamLimits(per_user_and_cluster=2, upgrades_per_user=1)).recorder
    office = Office()
    first, second = office.record(upgrade=True), office.record(upgrade=True)
    recorder.enter(first)
    with pytest.raises(LimitExceeded, match="upgrade"):
        recorder.enter(second)
    recorder.upgraded(first)
    recorder.enter(second)
    with pytest.raises(LimitExceeded, match='2 requests open for "ann" on "dev"'):
        recorder.enter(office.record())
    recorder.end(first, entered=True, upgraded=True)
    recorder.enter(office.record())
    whole = Office(StreamLimits(per_process=1)).recorder
    whole.enter(first)
    with pytest.raises(LimitExceeded):
        whole.enter(replace(second, handle="other"))
