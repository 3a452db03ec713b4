"""Authorizes changes of cluster tags that move a cluster into role bindings, or out of them."""

from collections.abc import Mapping
from datetime import datetime

from controlplane.access.model.bindings import Binding
from controlplane.access.operations.delegation import require_permissions_of_role
from controlplane.access.operations.scopes import find_role
from controlplane.access.operations.tagged_clusters import selects
from controlplane.access.ports import RoleBindingStore
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require
from controlplane.platform.context import ACCESS, Change
from controlplane.platform.ports import Transaction


async def authorize_tags(
    tx: Change, cluster: Resource, before: Mapping[str, str] | None, after: Mapping[str, str]
) -> None:
    """Authorizes the tags of a cluster; `before` None: it is new.

    Forbidden: a role binding would select the cluster, or select it no longer, and the actor may
    not bind its role there.
    """
    now = tx.context.clock.now()
    for binding in await permitted_bindings(tx, tx.actor, now, cluster, before, after):
        tx.publish(ACCESS, binding.affected_user)


async def permitted_bindings(
    tx: Transaction,
    actor: Actor,
    now: datetime,
    cluster: Resource,
    before: Mapping[str, str] | None,
    after: Mapping[str, str],
) -> list[Binding]:
    """Returns the role bindings that tags move a cluster into, or out of; `before` None: it is new.

    Forbidden: the actor may not bind the role of one of them there.
    """
    if before == after:
        return []
    moved: list[Binding] = []
    for binding in await tx[RoleBindingStore].in_scopes(list(cluster.path)):
        if not binding.cluster_tags or not binding.is_live(now):
            continue
        is_selected = selects(binding, after)
        if is_selected == (before is not None and selects(binding, before)):
            continue
        require(actor, Verb.ADMINISTER, cluster.below(ResourceKind.BINDING))
        role = await find_role(tx, binding.role_id)
        until = binding.expires_at if is_selected else now
        require_permissions_of_role(actor, role, cluster, until)
        moved.append(binding)
    return moved
