"""The ports of the proxy, answered from memory."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from core.errors import Forbidden, NotFound, Unauthenticated
from core.identity import ClusterId, TokenId, UserId
from core.open_streams import RequestEnd
from proxy.domain.access import (
    AuthenticatedUser,
    Credential,
    Impersonation,
    ImpersonationRule,
    LastContact,
    RecordingPolicy,
    RequestGrant,
)
from proxy.domain.attributes import RequestAttributes
from proxy.domain.audit import RequestRecord

CLUSTER = ClusterId("c1")
AGENT_TOKEN = TokenId("a1")
ANN = AuthenticatedUser(UserId("u1"), "ann", TokenId("t1"))
EVERYBODY = ImpersonationRule(("*",), ("*", "system:masters"), ("*",), ("*",), ("*",))
ROOT = AuthenticatedUser(UserId("u2"), "root", TokenId("t2"))
GROUPS = {"ann": ("devs",), "root": ("admins",)}


@dataclass
class FakeInstallation:
    """Users by token, one cluster `dev`, rights, the audit log, agents by token."""

    users: dict[str, AuthenticatedUser] = field(
        default_factory=lambda: {"ann-token": ANN, "root-token": ROOT}
    )
    agents: dict[str, TokenId] = field(default_factory=lambda: {"agent-token": AGENT_TOKEN})
    forbidden: set[str] = field(default_factory=set)
    opened_rows: list[RequestRecord] = field(default_factory=list)
    closed_rows: list[RequestRecord] = field(default_factory=list)
    seen: LastContact | None = None
    asked: list[str] = field(default_factory=list)
    checked: list[RequestAttributes] = field(default_factory=list)
    audit_fails: Exception | None = None
    began_rows: list[RequestRecord] = field(default_factory=list)
    impersonation: dict[str, ImpersonationRule] = field(default_factory=lambda: {"root": EVERYBODY})
    groups: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(GROUPS))
    recording: RecordingPolicy = RecordingPolicy.OFF
    passthrough: bool = False
    grants_end: datetime | None = None
    stream_limits: tuple[tuple[str, int], ...] = ()
    slow: Callable[[], Awaitable[None]] | None = None
    """Runs between the reading of a verdict and its arrival."""

    async def authenticate(self, credential: Credential, *, source: str) -> AuthenticatedUser:
        self.asked.append(credential.secret)
        identity = self.users.get(credential.secret)
        await self._pause()
        if identity is None:
            raise Unauthenticated("unknown token; run towline login")
        return identity

    async def authorize(
        self, identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
    ) -> RequestGrant:
        self.checked.append(attributes)
        if handle != "dev":
            raise NotFound(f'cluster "{handle}" not found, or you have no access to it')
        if identity.name in self.forbidden:
            raise Forbidden(f'user "{identity.name}" may not {attributes} on cluster "{handle}"')
        shown = Impersonation(
            identity.name, self.groups.get(identity.name, ()), extra=(("towline/token", "t"),)
        )
        rule = self.impersonation.get(identity.name)
        grant = RequestGrant(
            CLUSTER,
            shown,
            rule,
            "role editor",
            recording=self.recording,
            grant_ids=("g1",),
            passthrough=self.passthrough,
            expires_at=self.grants_end,
            stream_limits=self.stream_limits,
        )
        await self._pause()
        return grant

    async def _pause(self) -> None:
        if self.slow is not None:
            await self.slow()

    async def opened(self, record: RequestRecord) -> None:
        if self.audit_fails is not None:
            raise self.audit_fails
        self.opened_rows.append(record)

    def began(self, record: RequestRecord) -> None:
        self.began_rows.append(record)

    def closed(self, record: RequestRecord) -> None:
        self.closed_rows.append(record)

    def repeated(self, record: RequestRecord, ends: Sequence[RequestEnd]) -> None:
        self.closed_rows += [
            replace(record, id=id, seconds=seconds, bytes_out=size) for id, seconds, size in ends
        ]

    async def last_seen(self, cluster_id: ClusterId) -> LastContact | None:
        return self.seen

    async def agent(self, token: str) -> tuple[ClusterId, TokenId]:
        if token not in self.agents:
            raise Unauthenticated("not an agent token of this installation")
        return CLUSTER, self.agents[token]
