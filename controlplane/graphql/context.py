"""Context of resolvers: the caller and the operations."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from strawberry.types import Info as StrawberryInfo

from controlplane.domain.access import ANONYMOUS, Actor
from controlplane.ports import Bus
from controlplane.usecases.accounts import Accounts
from controlplane.usecases.blame import Blame
from controlplane.usecases.clustergroups import ClusterGroups
from controlplane.usecases.clusterjobs import ClusterJobs
from controlplane.usecases.clusters import Clusters
from controlplane.usecases.components import Components
from controlplane.usecases.contexts import Contexts
from controlplane.usecases.deployment import Deployment
from controlplane.usecases.diffs import Diffs
from controlplane.usecases.flows import Flows
from controlplane.usecases.globals import Globals
from controlplane.usecases.identity import Identity
from controlplane.usecases.interventions import Interventions
from controlplane.usecases.keys import Keys
from controlplane.usecases.ledger import Reports
from controlplane.usecases.namespaces import Namespaces
from controlplane.usecases.notifications import Notifying
from controlplane.usecases.people import People
from controlplane.usecases.pipeline_overrides import PipelineOverrides
from controlplane.usecases.pipelines import Pipelines
from controlplane.usecases.projects import Projects
from controlplane.usecases.records import Records
from controlplane.usecases.refreshing import Refreshing
from controlplane.usecases.repositories import Repositories
from controlplane.usecases.requests import AccessRequests
from controlplane.usecases.rights import Rights
from controlplane.usecases.search import Search
from controlplane.usecases.secrets import Secrets
from controlplane.usecases.services import Services
from controlplane.usecases.sets import Sets
from controlplane.usecases.streams import Streams
from controlplane.usecases.triggers import Triggers
from controlplane.usecases.whatif import WhatIfs
from fleet.errors import TowlineError
from fleet.identity import TokenKind, token_kind
from fleet.runtime.clock import Clock

# Fewer than the connections of the store, so that queries can read meanwhile.
_LOOKS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Verbs:
    """The operations that the API offers."""

    identity: Identity
    people: People
    accounts: Accounts
    projects: Projects
    rights: Rights
    requests: AccessRequests
    clusters: Clusters
    repositories: Repositories
    services: Services
    contexts: Contexts
    flows: Flows
    secrets: Secrets
    refreshing: Refreshing
    keys: Keys
    deployment: Deployment
    globals: Globals
    sets: Sets
    namespaces: Namespaces
    cluster_groups: ClusterGroups
    components: Components
    blame: Blame
    diffs: Diffs
    pipelines: Pipelines
    pipeline_overrides: PipelineOverrides
    whatifs: WhatIfs
    triggers: Triggers
    records: Records
    reports: Reports
    search: Search
    clock: Clock
    notifying: Notifying
    interventions: Interventions
    cluster_jobs: ClusterJobs
    streams: Streams
    bus: Bus
    agents_port: int
    signing_key: str = ""
    introspection: bool = True
    looks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOOKS_AT_ONCE))
    """Limits concurrent reads of subscribers, since one event can wake thousands of them."""


@dataclass(slots=True)
class Context:
    """One request, or one WebSocket connection: its caller and the operations.

    An internal error puts `request_id` into the log and the response.
    """

    verbs: Verbs
    request: Any = None
    response: Any = None
    connection_params: Any = None
    token: str = field(default="", repr=False)
    source: str = ""
    request_id: str = field(default_factory=lambda: uuid4().hex)
    caller: Actor = ANONYMOUS
    refused: TowlineError | None = None

    @property
    def actor(self) -> Actor:
        """The caller. Raises the reason if its token was rejected."""
        if self.refused is not None:
            raise self.refused
        return self.caller

    async def sign_in(self, token: str) -> None:
        """Authenticates a token. `actor` raises the reason of a rejection."""
        self.token = token
        if not token:
            return
        try:
            self.caller = await self.verbs.identity.authenticate(token, self.source)
            self.refused = None
        except TowlineError as error:
            self.refused = error

    async def renew(self) -> None:
        """Authenticates the token again and reloads the permissions of the caller."""
        if token_kind(self.token) is not TokenKind.TICKET:
            await self.sign_in(self.token)
            return
        try:
            identity = self.verbs.identity
            self.caller = await identity.actor_of(self.caller.id, self.caller.token_id)
        except TowlineError as error:
            self.refused = error

    async def recheck(self) -> None:
        """Renews before each event of a subscription. Raises the reason of a rejection."""
        await self.renew()
        if self.refused is not None:
            raise self.refused


Info = StrawberryInfo[Context, None]
