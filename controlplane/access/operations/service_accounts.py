"""Service accounts: users that authenticate only with tokens."""

from dataclasses import replace
from datetime import timedelta

from controlplane.access.model.users import USER_TOKEN_LIFE, Token, User, UserKind
from controlplane.access.operations.delegation import require_permissions_of_user
from controlplane.access.operations.tokens import check_life, mint
from controlplane.access.operations.users import (
    ACCOUNT_DOMAIN,
    ADMINISTER_USERS,
    check_address,
    find_user,
    new_user,
    update_user,
)
from controlplane.access.ports import UserStore
from controlplane.authorization import Actor, ResourceKind
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import ACCESS, StoreOperations
from controlplane.platform.names import check_label, check_text
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from core.errors import NotFound
from core.identity import TokenKind


@retry_operations
class ServiceAccounts(StoreOperations):
    """Operations on service accounts."""

    async def create(self, actor: Actor, name: str, email: str | None = None) -> User:
        """Creates a service account: a user that authenticates only with tokens.

        Without an address, the account gets `NAME@service-accounts`. A disabled account with this
        address is enabled again, with its roles.
        """
        async with self._context.change(actor, "createServiceAccount", ADMINISTER_USERS) as tx:
            address = (
                check_address(email) if email else f"{check_label(name, 'name')}@{ACCOUNT_DOMAIN}"
            )
            user = replace(new_user(self._context, address, name), kind=UserKind.SERVICE_ACCOUNT)
            existing = await tx[UserStore].by_email(address)
            if existing is None:
                await tx[UserStore].add(user)
            elif _is_disabled_account(existing):
                now = self._context.clock.now()
                await require_permissions_of_user(tx, actor, existing, now)
                user = replace(existing, name=user.name, disabled_at=None, updated_at=now)
                await tx[UserStore].put(user)
                tx.publish(ACCESS, user.id)
            else:
                raise name_conflict(actor, existing, f"user {address} already exists")
            tx.audit(address, user.id)
        return user

    async def update(self, actor: Actor, id: str, name: str | None, email: str | None) -> User:
        """Like `update`, for service accounts only."""
        async with self._context.change(actor, "updateServiceAccount", ADMINISTER_USERS) as tx:
            return await update_user(
                tx, await find_service_account(tx, id), self._context.clock.now(), name, email
            )

    async def create_token(
        self, actor: Actor, user_id: str, name: str, life: timedelta = USER_TOKEN_LIFE
    ) -> tuple[Token, str]:
        """Creates a token of a service account.

        The actor must hold every permission of the account.
        """
        async with self._context.change(actor, "createAccessToken", ADMINISTER_USERS) as tx:
            check_text(name, "name")
            check_life(life)
            user, now = await find_service_account(tx, user_id), self._context.clock.now()
            await require_permissions_of_user(tx, actor, user, now, now + life)
            kind = TokenKind.SERVICE_ACCOUNT
            row, secret = await mint(tx, self._context, name, user_id=user.id, life=life, kind=kind)
            tx.audit(user.email, row.id)
        return row, secret


async def find_service_account(tx: Transaction, id: str) -> User:
    """The service account with this id. NotFound: it does not exist."""
    user = await find_user(tx, id)
    if user.kind is not UserKind.SERVICE_ACCOUNT:
        raise NotFound(kind=ResourceKind.USER)
    return user


def _is_disabled_account(user: User) -> bool:
    """Returns whether an administrator disabled a service account. A directory enables its own."""
    is_account = user.kind is UserKind.SERVICE_ACCOUNT
    return is_account and user.disabled_at is not None and user.disabled_by is None
