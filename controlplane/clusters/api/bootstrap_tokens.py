"""Bootstrap tokens in the API."""

import strawberry

from controlplane.clusters.api.clusters import Tag, tags_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.model.bootstrap_tokens import BootstrapToken
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokenChange, BootstrapTokens
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.graphql.resource_fields import ResourceFields, each


@strawberry.type
class ClusterThatJoined:
    """A cluster that joined with a bootstrap token."""

    id: strawberry.ID
    """ID of the cluster."""
    handle: str
    """Unique short name of the cluster."""
    connected: bool
    """True once the agent of the cluster has connected."""

    @classmethod
    def of(cls, row: Cluster) -> "ClusterThatJoined":
        return cls(id=strawberry.ID(row.id), handle=row.handle, connected=row.pinged_at is not None)


@output(BootstrapToken, hide={"hash", "creator_id"})
class BootstrapTokenType(Output[BootstrapToken]):
    """A token with which agents register their clusters. The token itself is never returned."""

    tags: list[Tag] = computed(tags_of)

    @strawberry.field
    async def clusters(self, info: Info) -> list[ClusterThatJoined]:
        """Clusters that joined with the token and that the caller may read, oldest first."""
        rows = await info.context[BootstrapTokens].clusters(info.context.actor, self.id)
        return [ClusterThatJoined.of(row) for row in rows]


@strawberry.type
class NewBootstrapToken:
    """A new bootstrap token."""

    token: str
    """The token. It is shown only once."""
    bootstrap_token: BootstrapTokenType
    """The token without its secret."""


@draft(BootstrapTokenChange, rename={"expires_in_seconds": "expires_in_s"}, publish_defaults=True)
class BootstrapTokenAttributes(Draft[BootstrapTokenChange]):
    """Fields of a new bootstrap token."""

    tags: list[TagAttributes] | None = None


_TOKENS = ResourceFields(
    "bootstrap token",
    BootstrapTokens,
    BootstrapTokenType,
    each(BootstrapTokenType.of),
    is_nullable=False,
)


@strawberry.type
class BootstrapTokenQuery:
    """Queries of bootstrap tokens."""

    bootstrap_tokens = _TOKENS.all(BootstrapTokens.all)
    """Bootstrap tokens for projects in which the caller may register clusters, newest first."""
    bootstrap_token = _TOKENS.by_id(BootstrapTokens.get)
    """A bootstrap token."""


@strawberry.type
class BootstrapTokenMutation:
    """Mutations of bootstrap tokens."""

    @strawberry.mutation
    async def create_bootstrap_token(
        self, info: Info, attributes: BootstrapTokenAttributes
    ) -> NewBootstrapToken:
        """Creates a token with which agents register their clusters.

        Args:
            attributes: Fields of the token.
        """
        tokens = info.context[BootstrapTokens]
        row, secret = await tokens.create(info.context.actor, attributes.change())
        return NewBootstrapToken(token=secret, bootstrap_token=BootstrapTokenType.of(row))

    revoke_bootstrap_token = _TOKENS.action(BootstrapTokens.revoke)
    """Revokes a bootstrap token. Clusters that joined with it stay registered."""
