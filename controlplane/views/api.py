"""Saved views in the API."""

import builtins

import strawberry

from controlplane.authorization import Actor
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, draft, output
from controlplane.views.model import SavedView, Sharing
from controlplane.views.operations import SavedViews, ViewChange

strawberry.enum(Sharing, name="ViewSharing")


@output(SavedView, hide={"owner_id"}, name="SavedView")
class SavedViewType(Output[SavedView]):
    """A saved view of a list."""

    own: bool
    """True if the caller owns the view."""


@draft(ViewChange)
class SavedViewAttributes(Draft[ViewChange]):
    """Fields of a saved view."""


def _shown(actor: Actor, view: SavedView) -> SavedViewType:
    return SavedViewType.of(view, own=view.owner_id == actor.id)


@strawberry.type
class SavedViewQuery:
    @strawberry.field
    async def saved_views(
        self, info: Info, list: str | None = None
    ) -> builtins.list[SavedViewType]:
        """Views of the caller, and views shared with the caller, by list and name.

        Args:
            list: Path of the list in the console, such as `services`. Default: all lists.
        """
        actor = info.context.actor
        views = await info.context[SavedViews].all(actor, list)
        return [_shown(actor, view) for view in views]

    @strawberry.field
    async def saved_view(self, info: Info, id: strawberry.ID) -> SavedViewType | None:
        """A saved view.

        Args:
            id: ID of the view.
        """
        actor = info.context.actor
        return _shown(actor, await info.context[SavedViews].get(actor, id))


@strawberry.type
class SavedViewMutation:
    @strawberry.mutation
    async def save_view(
        self, info: Info, attributes: SavedViewAttributes, id: strawberry.ID | None = None
    ) -> SavedViewType | None:
        """Creates a view of a list, or changes one. Sharing it requires permission to administer
        the project or the installation.

        Args:
            attributes: Fields of the view.
            id: ID of the view. Default: a new view.
        """
        actor = info.context.actor
        return _shown(actor, await info.context[SavedViews].save(actor, id, attributes.change()))

    @strawberry.mutation
    async def delete_view(self, info: Info, id: strawberry.ID) -> SavedViewType | None:
        """Deletes a view. Its owner may do that, and administrators of the project or installation
        with which it is shared.

        Args:
            id: ID of the view.
        """
        actor = info.context.actor
        return _shown(actor, await info.context[SavedViews].delete(actor, id))
