"""Parts of the control plane that need only settings and the store.

The Kubernetes proxy authenticates with them, and the git cache reads the store. So both exist
before the rest of the control plane, which calls them.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.access.model.sign_in import Issuer
from controlplane.access.oidc.issuers import OidcClient, OidcIssuers
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.sign_in import SignIn
from controlplane.access.operations.token_exchange import TokenExchange
from controlplane.agents.operations.tunnels import TunnelClaims
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import StoreContext
from controlplane.platform.rate_limits import WINDOW_S, RequestLimiter
from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.platform.store.transaction import SqlStore
from controlplane.secrets.backends.passwords import ArgonPasswords
from controlplane.settings import AuthSettings, ControlPlaneSettings
from controlplane.store.migrate import migrate
from controlplane.store.repositories import REPOSITORIES
from core.runtime.clock import Clock
from core.runtime.token_bucket import RatePolicy

if TYPE_CHECKING:
    from controlplane.platform.bus.rate_limits import RateExchange
    from controlplane.platform.bus.redis import RedisBus


@dataclass(frozen=True, slots=True)
class SignInParts:
    """The parts that find out who calls."""

    issuers: OidcIssuers
    passwords: ArgonPasswords
    identity: CredentialAuthenticator
    accounts: TokenExchange
    signin: SignIn


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The parts that replicas share through Redis; without it, this replica counts alone."""

    limiter: RequestLimiter
    rates: "RateExchange | None" = None
    bus: "RedisBus | None" = None


@dataclass(frozen=True, slots=True)
class Foundation:
    """The store, the event bus, and the operations that need nothing else."""

    settings: ControlPlaneSettings
    store: SqlStore
    context: StoreContext
    shared: SharedParts
    sign_in: SignInParts
    records: AuditLogOperations
    tunnels: TunnelClaims

    def start(self) -> None:
        """Starts the exchange with other replicas."""
        if self.shared.bus is not None:
            self.shared.bus.start()
        if self.shared.rates is not None:
            self.shared.rates.start()

    async def close(self) -> None:
        """Ends the exchange with other replicas, then closes the store."""
        if self.shared.rates is not None:
            await self.shared.rates.stop()
        if self.shared.bus is not None:
            await self.shared.bus.stop()
        self.sign_in.passwords.close()
        await self.sign_in.issuers.close()
        await self.store.close()


async def lay_foundation(settings: ControlPlaneSettings, clock: Clock) -> Foundation:
    """Opens and migrates the store, and builds the parts on it."""
    engine = open_engine(settings)
    try:
        await migrate(engine)
    except BaseException:
        await engine.dispose()
        raise
    store, shared = SqlStore(engine, REPOSITORIES), _shared_parts(settings, clock)
    context = StoreContext(store, shared.bus or MemoryBus(), clock)
    return Foundation(
        settings,
        store,
        context,
        shared,
        _sign_in_parts(context, settings.auth),
        AuditLogOperations(context),
        TunnelClaims(context),
    )


def open_engine(settings: ControlPlaneSettings) -> AsyncEngine:
    """Opens the engine of the store from the settings."""
    if settings.database is not None:
        return make_engine(settings.database.get_secret_value())
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    return make_engine(sqlite_url(settings.data_dir))


def _shared_parts(settings: ControlPlaneSettings, clock: Clock) -> SharedParts:
    most = math.ceil(settings.api.requests_per_minute * WINDOW_S / 60)
    limiter = RequestLimiter(RatePolicy.per(WINDOW_S, most) if most else None)
    if settings.redis is None:
        return SharedParts(limiter)
    url = settings.redis.get_secret_value()
    # The library of Redis prolongs a start by a tenth.
    from controlplane.platform.bus.rate_limits import RateExchange
    from controlplane.platform.bus.redis import RedisBus

    return SharedParts(limiter, RateExchange(url, limiter, clock), RedisBus(url, clock))


def _sign_in_parts(context: StoreContext, settings: AuthSettings) -> SignInParts:
    issuers = OidcIssuers(_clients(settings), context.clock, settings.oidc_ca_file)
    federation, passwords = Federation(context, issuers), ArgonPasswords()
    return SignInParts(
        issuers,
        passwords,
        CredentialAuthenticator(context, DeployTokenReader(context.store), federation),
        TokenExchange(context, issuers),
        SignIn(context, federation, passwords, local=settings.local),
    )


def _clients(settings: AuthSettings) -> list[OidcClient]:
    return [
        OidcClient(
            issuer=Issuer(
                issuer.name, issuer.issuer, issuer.title or issuer.name, issuer.required_groups
            ),
            client_id=issuer.client_id,
            client_secret=issuer.client_secret.get_secret_value(),
            scopes=issuer.scopes,
            groups_claim=issuer.groups_claim,
            trust_email=issuer.trust_email,
            audience=issuer.audience,
        )
        for issuer in settings.oidc
    ]
