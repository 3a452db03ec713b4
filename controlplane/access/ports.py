"""Ports of access."""

from collections.abc import Sequence
from typing import Protocol

from controlplane.access.model.bindings import AccessRequest, Binding, Project
from controlplane.access.model.sign_in import (
    Claims,
    Issuer,
    SignInChallenge,
    SignInFailures,
    TrustRule,
)
from controlplane.access.model.users import Group, Login, Membership, Token, User
from controlplane.authorization import Resource, ResourceKind, Role
from controlplane.platform.context import Change
from controlplane.platform.ports import Rows, Transaction
from core.identity import ClusterId


class Issuers(Protocol):
    """OpenID Connect identity providers, and verification of tokens of trusted issuers."""

    def known(self) -> tuple[Issuer, ...]:
        """Returns the configured issuers for sign-in."""
        ...

    async def begin(self, name: str, redirect: str, state: str, nonce: str, challenge: str) -> str:
        """Returns the URL at which a browser signs in.

        Raises NotFound for an unknown issuer, Unavailable if the issuer does not answer.
        """
        ...

    async def check_reply(self, name: str, issuer: str) -> None:
        """Checks the parameter `iss` of a reply (RFC 9207). Raises Unauthenticated if the reply is
        of another issuer, or lacks the parameter although the issuer sends it.
        """
        ...

    async def finish(
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

    async def outside(self, tx: Transaction, project: Project) -> Sequence[str]:
        """Returns the names of existing services that are outside the project's fence."""
        ...

    async def renew(self, tx: Change, project: Project) -> None:
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


class TokenStore(Rows[Token], Protocol):
    """Tokens of users and agents, by their hashes."""


class GroupStore(Rows[Group], Protocol):
    """Groups of users."""


class MembershipStore(Rows[Membership], Protocol):
    """Members of groups."""


class LoginStore(Rows[Login], Protocol):
    """Identities of users at identity providers."""


class ProjectStore(Rows[Project], Protocol):
    """Projects."""


class RoleStore(Rows[Role], Protocol):
    """Roles."""


class RoleBindingStore(Rows[Binding], Protocol):
    """Bindings of roles to users and groups."""


class AccessRequestStore(Rows[AccessRequest], Protocol):
    """Requests for temporary access."""


class ChallengeStore(Rows[SignInChallenge], Protocol):
    """Sign-ins in progress."""


class SignInFailureStore(Rows[SignInFailures], Protocol):
    """Counts of failed sign-ins."""


class TrustRuleStore(Rows[TrustRule], Protocol):
    """Rules that trust tokens of other issuers."""


class ResourceDirectory(Protocol):
    """Finds resources of every kind; nouns above `access` own most of them."""

    async def find(self, kind: ResourceKind, id: str, *, locked: bool) -> Resource | None:
        """Returns a row as a resource; None: there is no such row.

        `locked` keeps other transactions from writing the row until this one ends.
        """
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
