"""Bootstrap tokens: agents register their clusters with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from core.errors import Unauthenticated


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """A token that can only register clusters, in one project and with its tags."""

    id: str
    name: str
    """Display name."""
    hash: str
    """SHA-256 of the token."""
    creator_id: str
    """ID of the user who created the token. It registers clusters only while this user may."""
    inserted_at: datetime
    expires_at: datetime
    """Expiry time."""
    max_uses: int = 1
    """Maximum number of clusters."""
    uses: int = 0
    """Number of clusters that joined with the token."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the new clusters."""
    adopts: bool = False
    """True if an agent may take over a registered cluster of its name to which no agent has
    connected."""
    last_used_at: datetime | None = None
    """Time at which the last cluster joined."""
    revoked_at: datetime | None = None
    """Time of revocation. None while the token is valid."""
    project_id: str = DEFAULT_PROJECT
    """ID of the project of new clusters."""
    cluster_id: str | None = None
    """ID of the registered cluster that alone may join. None: new clusters join."""

    @property
    def target(self) -> Resource:
        """Returns the location of the clusters that the token registers."""
        return Resource.within(ResourceKind.CLUSTER, self.project_id)

    def check(self, now: datetime) -> None:
        """Raises Unauthenticated with the reason if the token is no longer valid."""
        if self.revoked_at is not None:
            raise Unauthenticated(
                f"bootstrap token {self.name!r} was revoked at {self.revoked_at:%FT%TZ}"
            )
        if self.expires_at <= now:
            raise Unauthenticated(
                f"bootstrap token {self.name!r} expired at {self.expires_at:%FT%TZ}"
            )

    def check_uses(self) -> None:
        """Raises Unauthenticated if as many clusters joined as the token permits."""
        if self.uses >= self.max_uses:
            raise Unauthenticated(
                f"bootstrap token {self.name!r} is used up: {self.uses} of {self.max_uses} "
                "clusters joined"
            )


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """An agent's request to register its cluster."""

    name: str
    """Wanted name. Empty: a name from the UID."""
    kubernetes_uid: str
    """UID of the namespace kube-system, which identifies the cluster."""
    dry_run: bool = False
    """True checks the token, and registers nothing."""


@dataclass(frozen=True, slots=True)
class JoinedCluster:
    """A cluster that joined, and the deploy token of its agent."""

    cluster_id: str
    handle: str
    token: str = field(repr=False)
