"""Context of resolvers: the caller and the operations."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from strawberry.types import Info as StrawberryInfo

from controlplane.domain.access import ANONYMOUS, Actor
from controlplane.ports import Bus
from controlplane.usecases.accounts import TokenExchange
from controlplane.usecases.blame import Blame
from controlplane.usecases.clustergroups import ClusterGroups
from controlplane.usecases.clusterjobs import ClusterJobs
from controlplane.usecases.clusters import Clusters
from controlplane.usecases.components import ComponentOperations
from controlplane.usecases.contexts import ServiceContexts
from controlplane.usecases.deployment import DeploymentSettingsOperations
from controlplane.usecases.diffs import Diffs
from controlplane.usecases.flows import ConfigurationFlow
from controlplane.usecases.globals import GlobalServices
from controlplane.usecases.identity import CredentialAuthenticator
from controlplane.usecases.interventions import AgentCommands
from controlplane.usecases.keys import DataKeyOperations
from controlplane.usecases.ledger import LedgerReports
from controlplane.usecases.namespaces import ManagedNamespaces
from controlplane.usecases.notifications import NotificationOperations
from controlplane.usecases.people import UserOperations
from controlplane.usecases.pipeline_overrides import ReleaseDecisions
from controlplane.usecases.pipelines import Pipelines
from controlplane.usecases.projects import Projects
from controlplane.usecases.records import AuditLogOperations
from controlplane.usecases.refreshing import SecretRefresher
from controlplane.usecases.repositories import RepositoryOperations
from controlplane.usecases.requests import AccessRequests
from controlplane.usecases.rights import AccessControl
from controlplane.usecases.search import SearchOperations
from controlplane.usecases.secrets import Secrets
from controlplane.usecases.services import Services
from controlplane.usecases.sets import ServiceSets
from controlplane.usecases.streams import OpenRequestOperations
from controlplane.usecases.triggers import Triggers
from controlplane.usecases.whatif import PipelineReplays
from core.errors import TowlineError
from core.identity import TokenKind, token_kind
from core.runtime.clock import Clock

# Fewer than the connections of the store, so that queries can read meanwhile.
_MAX_CONCURRENT_READS = 8


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations that the API offers."""

    identity: CredentialAuthenticator
    people: UserOperations
    accounts: TokenExchange
    projects: Projects
    rights: AccessControl
    requests: AccessRequests
    clusters: Clusters
    repositories: RepositoryOperations
    services: Services
    contexts: ServiceContexts
    flows: ConfigurationFlow
    secrets: Secrets
    refreshing: SecretRefresher
    keys: DataKeyOperations
    deployment: DeploymentSettingsOperations
    globals: GlobalServices
    sets: ServiceSets
    namespaces: ManagedNamespaces
    cluster_groups: ClusterGroups
    components: ComponentOperations
    blame: Blame
    diffs: Diffs
    pipelines: Pipelines
    pipeline_overrides: ReleaseDecisions
    whatifs: PipelineReplays
    triggers: Triggers
    records: AuditLogOperations
    reports: LedgerReports
    search: SearchOperations
    clock: Clock
    notifying: NotificationOperations
    interventions: AgentCommands
    cluster_jobs: ClusterJobs
    streams: OpenRequestOperations
    bus: Bus
    agents_port: int
    signing_key: str = ""
    introspection: bool = True
    read_slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT_READS)
    )
    """Limits concurrent reads of subscribers, since one event can wake thousands of them."""


@dataclass(slots=True)
class Context:
    """One request, or one WebSocket connection: its caller and the operations.

    An internal error puts `request_id` into the log and the response.
    """

    verbs: Operations
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
