"""Ports of access."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from controlplane.access.model.bindings import AccessRequest, AccessRequestState, Binding, Project
from controlplane.access.model.sign_in import (
    ChallengeKind,
    Claims,
    Issuer,
    SignInChallenge,
    SignInFailures,
)
from controlplane.access.model.trust_rules import TrustRule
from controlplane.access.model.users import (
    Group,
    Login,
    Membership,
    Token,
    TokenKind,
    User,
    UserKind,
)
from controlplane.authorization import Resource, ResourceKind, Role
from controlplane.platform.context import Change
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.ports import Ids, NamedRows, Rows, Transaction
from core.identity import ClusterId


class Issuers(Protocol):
    """OpenID Connect identity providers, and verification of tokens of trusted issuers."""

    def configured(self) -> tuple[Issuer, ...]:
        """Returns the configured issuers for sign-in."""
        ...

    async def authorization_url(
        self, name: str, redirect: str, state: str, nonce: str, challenge: str
    ) -> str:
        """Returns the URL at which a browser signs in.

        Raises NotFound for an unknown issuer, Unavailable if the issuer does not answer.
        """
        ...

    async def check_reply(self, name: str, issuer: str) -> None:
        """Checks the parameter `iss` of a reply (RFC 9207). Raises Unauthenticated if the reply is
        of another issuer, or lacks the parameter although the issuer sends it.
        """
        ...

    async def redeem_code(
        self, name: str, redirect: str, code: str, verifier: str, nonce: str
    ) -> Claims:
        """Redeems a code. Raises Unauthenticated if the issuer's answer is not trustworthy."""
        ...

    def unverified_issuer(self, token: str) -> str:
        """Returns the unverified issuer of a token. Raises Unauthenticated if it is not a token."""
        ...

    async def verify(self, token: str) -> Claims:
        """Verifies an ID token of a configured issuer for this installation. Raises Unauthenticated
        with the reason.
        """
        ...

    async def verify_for_audience(
        self, token: str, issuer: str, audience: str, keys: str | None
    ) -> Claims:
        """Verifies a token of any issuer for an audience; `keys` is its JWKS if discovery cannot
        reach it.
        """
        ...


class FenceEffects(Protocol):
    """Effects of a changed fence on the services of its project."""

    async def refused_services(self, tx: Transaction, project: Project) -> Sequence[str]:
        """Returns the names of existing services that are outside the project's fence."""
        ...

    async def apply(self, tx: Change, project: Project) -> None:
        """Renders the services of the project again, and sends the fence to their agents."""
        ...


class Passwords(Protocol):
    """Password hashes. Slow by design, with limited concurrency."""

    async def hash(self, password: str) -> str: ...

    async def verify(self, hash: str | None, password: str) -> bool:
        """Checks a password; takes the same time without a hash. Raises LimitExceeded if
        busy.
        """
        ...


class UserStore(Rows[User], Protocol):
    """Users and service accounts."""

    async def by_email(self, email: str) -> User | None:
        return await self.find(email=email)

    async def by_emails(self, emails: Collection[str]) -> list[User]:
        return await self.select(email=emails)

    async def by_external_id(self, issuer: str, ids: Ids) -> User | None:
        return await self.find(issuer=issuer, external_id=ids)

    async def with_external_id(self, issuer: str, external_id: str) -> list[User]:
        return await self.select(issuer=issuer, external_id=external_id)

    async def of_issuer_by_ids(self, issuer: str, ids: Collection[str]) -> list[User]:
        return await self.select(issuer=issuer, id=ids)

    async def of_issuer(self, issuer: str) -> list[User]:
        return await self.select(issuer=issuer)

    async def people(self) -> list[User]:
        return await self.select(kind=UserKind.PERSON)


class TokenStore(Rows[Token], Protocol):
    """Tokens of users and agents, by their hashes."""

    async def by_hash(self, hash: str) -> Token | None:
        return await self.find(hash=hash)

    async def by_hashes(self, hashes: Collection[str]) -> list[Token]:
        return await self.select(hash=hashes)

    async def of_kind(self, kind: TokenKind) -> list[Token]:
        return await self.select(kind=kind)

    async def children_of(self, parent_id: str | None) -> list[Token]:
        return await self.select(parent_id=parent_id)

    async def of_user(self, user_id: str, *kinds: TokenKind) -> list[Token]:
        return await self.select(user_id=user_id, kind=kinds)

    async def usable_of_user(self, user_id: str, *kinds: TokenKind) -> list[Token]:
        return await self.select(user_id=user_id, kind=kinds, revoked_at=None)

    async def usable_children_of(
        self, user_id: str, parents: Collection[str | None]
    ) -> list[Token]:
        return await self.select(user_id=user_id, parent_id=parents, revoked_at=None)

    async def usable_of_cluster(self, cluster_id: str) -> list[Token]:
        return await self.select(cluster_id=cluster_id, revoked_at=None)

    async def unused_of_cluster(self, cluster_id: str) -> list[Token]:
        return await self.select(cluster_id=cluster_id, revoked_at=None, last_used_at=None)

    async def revoke(self, id: str, at: datetime) -> None:
        await self.change(id, revoked_at=at)


class GroupStore(NamedRows[Group], Protocol):
    """Groups of users."""

    async def for_everyone(self) -> list[Group]:
        return await self.select(everyone=True)

    async def of_issuer(self, issuer: str) -> list[Group]:
        return await self.select(issuer=issuer)

    async def of_issuer_by_name(self, issuer: str, name: str) -> list[Group]:
        return await self.select(issuer=issuer, name=name)

    async def with_external_id(self, issuer: str, external_id: str) -> list[Group]:
        return await self.select(issuer=issuer, external_id=external_id)


class MembershipStore(Rows[Membership], Protocol):
    """Members of groups."""

    async def of_member(self, group_id: str, user_id: str) -> Membership | None:
        return await self.find(group_id=group_id, user_id=user_id)

    async def of_groups(self, groups: Ids) -> list[Membership]:
        return await self.select(group_id=groups)

    async def of_user(self, user_id: str) -> list[Membership]:
        return await self.select(user_id=user_id)

    async def of_groups_from(self, groups: Ids, issuer: str) -> list[Membership]:
        return await self.select(group_id=groups, issuer=issuer)

    async def of_user_from(self, user_id: str, issuer: str) -> list[Membership]:
        return await self.select(user_id=user_id, issuer=issuer)


class LoginStore(Rows[Login], Protocol):
    """Identities of users at identity providers."""

    async def by_identity(self, issuer: str, subject: str) -> Login | None:
        return await self.find(issuer=issuer, subject=subject)

    async def of_user(self, user_id: str) -> Login | None:
        return await self.find(user_id=user_id)

    async def of_user_at(self, user_id: str, issuer: str) -> Login | None:
        return await self.find(user_id=user_id, issuer=issuer)


class ProjectStore(NamedRows[Project], Protocol):
    """Projects."""


class RoleStore(NamedRows[Role], Protocol):
    """Roles."""


class RoleBindingStore(NamedRows[Binding], Protocol):
    """Bindings of roles to users and groups. Only declared ones have names."""

    async def of_role(self, role_id: str) -> list[Binding]:
        return await self.select(role_id=role_id)

    async def in_scopes(self, scopes: Ids) -> list[Binding]:
        return await self.select(scope=scopes)

    async def of_subjects(self, subjects: Ids) -> list[Binding]:
        return await self.select(subject_id=subjects)

    async def of_subjects_in(self, subjects: Ids, scope: str) -> list[Binding]:
        """Returns bindings in a whole scope."""
        return await self.select(subject_id=subjects, scope=scope, cluster_tags="")

    async def permanent(self, role_id: str, scope: str) -> list[Binding]:
        """Returns permanent bindings in a whole scope that no manifest of their own declares."""
        return await self.select(
            role_id=role_id, scope=scope, expires_at=None, name=None, cluster_tags=""
        )

    async def unnamed(self) -> list[Binding]:
        """Returns permanent bindings without a name, in all scopes."""
        return await self.select(expires_at=None, name=None)

    async def expired(self, now: datetime) -> list[Binding]:
        """Returns bindings whose expiry was not recorded yet."""
        return [row for row in await self.past("expires_at", now) if row.ended_at is None]


class AccessRequestStore(Rows[AccessRequest], Protocol):
    """Requests for temporary access."""

    async def pending(self) -> list[AccessRequest]:
        return await self.select(state=AccessRequestState.PENDING)

    async def of_user(self, user_id: str) -> list[AccessRequest]:
        return await self.select(user_id=user_id)

    async def pending_of(self, user_id: str) -> list[AccessRequest]:
        return await self.select(user_id=user_id, state=AccessRequestState.PENDING)


class ChallengeStore(Rows[SignInChallenge], Protocol):
    """Sign-ins in progress."""

    async def by_hash(self, hash: str, kind: ChallengeKind) -> SignInChallenge | None:
        return await self.find(hash=hash, kind=kind)

    async def by_code(self, code: str) -> SignInChallenge | None:
        return await self.find(code=code, kind=ChallengeKind.DEVICE)

    async def mark_used(self, id: str, at: datetime) -> None:
        await self.change(id, taken_at=at)

    async def decide(self, id: str, user_id: str, detail: Mapping[str, str]) -> None:
        await self.change(id, user_id=user_id, detail=detail)


class SignInFailureStore(Rows[SignInFailures], Protocol):
    """Counts of failed sign-ins."""

    async def set_count(self, id: str, count: int) -> None:
        await self.change(id, count=count)


class TrustRuleStore(NamedRows[TrustRule], Protocol):
    """Rules that trust tokens of other issuers."""

    async def of_issuer(self, issuer: str) -> list[TrustRule]:
        return await self.select(issuer=issuer)


class ResourceDirectory(Protocol):
    """Finds resources of every kind; nouns above `access` own most of them."""

    async def find(self, kind: ResourceKind, id: str, *, locked: bool) -> Resource | None:
        """Returns a row as a resource; None: there is no such row.

        `locked` keeps other transactions from writing the row until this one ends.
        """
        ...

    async def find_each(self, kind: ResourceKind, ids: Collection[str]) -> Mapping[str, Resource]:
        """Returns those rows that exist as resources, by id."""
        ...

    async def tagged_clusters(
        self, requirements: Sequence[LabelRequirement], project_id: str | None
    ) -> Sequence[str]:
        """Returns the IDs of clusters whose tags meet all requirements, of one project or all."""
        ...

    async def project_contents(self, project_id: str) -> str:
        """Returns the first kind that the project contains, such as `3 clusters`; or nothing."""
        ...


class DeployTokens(Protocol):
    """Looks up the tokens of agents."""

    async def find(self, hash: str) -> tuple[Token, ClusterId | None] | None:
        """Returns the token with this hash, and its cluster if that exists.

        Unavailable: the store does not answer.
        """
        ...
