"""Saves, shares and deletes views."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controlplane.access.operations.scopes import find_project
from controlplane.authorization import Actor, Resource, ResourceKind, Verb
from controlplane.platform.context import Change, StoreOperations
from controlplane.platform.parts import given_columns
from controlplane.platform.ports import Transaction
from controlplane.platform.references import reference
from controlplane.platform.retry import retry_operations
from controlplane.views.model import SavedView, Sharing
from controlplane.views.ports import SavedViewStore
from core.errors import Conflict, Forbidden, LimitExceeded, NotFound

MAX_VIEWS = 100
"""Maximum number of views of one user."""
_INSTALLATION = Resource.whole(ResourceKind.INSTALLATION)


@dataclass(frozen=True, slots=True)
class ViewChange:
    """Changes to a view. None leaves a field unchanged."""

    name: str | None = None
    """Name, unique among the views of its owner for the list. Required for a new view. Limit: 100
    characters."""
    list: str | None = None
    """The list, by its path in the console, such as `services` or `clusters`. Required for a new
    view. Limit: 255 characters."""
    query: str | None = None
    """Filter in the query language of the list. Limit: 1,000 characters."""
    filters: Mapping[str, str] | None = None
    """Other filters by their name in the address of the list. Replaces all. Limit: 20 filters."""
    columns: tuple[str, ...] | None = None
    """Columns in their order. An empty list means the usual columns. Limit: 50 columns of 64
    characters."""
    order: str | None = None
    """Column that sorts the rows, after `-` for the reverse order. Limit: 64 characters."""
    sharing: Sharing | None = None
    """Users who see the view, in addition to its owner. Default: `NOBODY`."""
    project_id: str | None = None
    """ID of the project with which the view is shared. Only with `PROJECT`."""

    def applied(self, view: SavedView) -> SavedView:
        """Returns the changed view. Raises Invalid if a value is not allowed."""
        changes = given_columns(self)
        if changes.get("sharing", Sharing.PROJECT) is not Sharing.PROJECT:
            changes.setdefault("project_id", None)
        view = replace(view, **changes)
        view.check()
        return view


@retry_operations
class SavedViews(StoreOperations):
    """Operations on saved views."""

    async def all(self, actor: Actor, list: str | None = None) -> list[SavedView]:
        """Views of the actor and views shared with the actor, of one list or of all, by name."""
        async with self._context.read(actor) as tx:
            store = tx[SavedViewStore]
            rows = [*await store.of_owner(actor.id), *await store.shared()]
        views = {row.id: row for row in rows if list in (None, row.list)}
        shown = (view for view in views.values() if view.is_visible_to(actor))
        return sorted(shown, key=lambda view: (view.list, view.name, view.id))

    async def get(self, actor: Actor, id: str) -> SavedView:
        """Finds a view. NotFound: it does not exist, or the actor may not see it."""
        async with self._context.read(actor) as tx:
            return await _find_visible(tx, actor, id)

    async def save(self, actor: Actor, id: str | None, change: ViewChange) -> SavedView:
        """Creates a private or shared view, or changes the view with this ID.

        Forbidden: the view is or gets shared, and the actor may not administer the project or the
        installation.
        """
        now, is_new = self._context.clock.now(), not id
        async with self._context.change(actor, "saveView") as tx:
            if is_new:
                before = SavedView(self._context.new_id(), "", "", actor.id, actor.email, now, now)
            else:
                before = await _find_visible(tx, actor, id or "")
            await _authorize_sharing(tx, before)
            view = replace(change.applied(before), updated_at=now)
            await _authorize_sharing(tx, view)
            await _check_own_views(tx, view, is_new=is_new)
            await (tx[SavedViewStore].add if is_new else tx[SavedViewStore].put)(view)
            tx.audit(view.name, view.id, list=view.list, sharing=view.sharing)
        return view

    async def delete(self, actor: Actor, id: str) -> SavedView:
        """Deletes a view. An owner may always delete it."""
        async with self._context.change(actor, "deleteView") as tx:
            view = await _find_visible(tx, actor, id)
            if view.owner_id == actor.id:
                view = replace(view, sharing=Sharing.NOBODY, project_id=None)
            await _authorize_sharing(tx, view)
            await tx[SavedViewStore].remove(id)
            tx.audit(view.name, id, list=view.list)
        return view


async def _find_visible(tx: Transaction, actor: Actor, id: str) -> SavedView:
    view = await tx[SavedViewStore].get(id)
    if view is None or not view.is_visible_to(actor):
        raise NotFound("view does not exist")
    return view


async def _authorize_sharing(tx: Change, view: SavedView) -> None:
    """Forbidden: the actor may not share a view in this way, or uses a token with scopes."""
    if tx.actor.policy.limits:
        raise Forbidden("a token with scopes cannot change views: sign in first")
    tx.authorized_by("own view")
    if view.project_id:
        with reference("projectId", view.project_id):
            tx.authorize(Verb.ADMINISTER, (await find_project(tx, view.project_id)).target)
    elif view.sharing is Sharing.EVERYBODY:
        tx.authorize(Verb.ADMINISTER, _INSTALLATION)


async def _check_own_views(tx: Transaction, view: SavedView, *, is_new: bool) -> None:
    own = await tx[SavedViewStore].of_owner(view.owner_id)
    if any(
        (other.list, other.name) == (view.list, view.name) and other.id != view.id for other in own
    ):
        raise Conflict(f"view {view.name!r} of {view.list} already exists")
    if is_new and len(own) >= MAX_VIEWS:
        raise LimitExceeded(f"you already have {MAX_VIEWS} views: delete one first")
