"""How many clusters of a group may change at once; rights to pause and to resume"""

import sqlalchemy as sa
from alembic import op

from controlplane.platform.store import columns

revision = "0025"
down_revision = "0024"

_STOP_AND_GO = ("pause", "resume")


def upgrade() -> None:
    """The defaults stay: replicas of the version before go on adding rows without the columns."""
    with op.batch_alter_table("cluster_groups") as batch:
        batch.add_column(sa.Column("max_changing", sa.Integer, nullable=False, server_default="0"))
    with op.batch_alter_table("pipeline_services") as batch:
        batch.add_column(
            sa.Column("changing", sa.Boolean, nullable=False, server_default=sa.false())
        )
    _keep_rights()


def _keep_rights() -> None:
    """Who might approve might pause and resume: roles that exist keep that."""
    roles = sa.table("roles", sa.column("id", sa.String), sa.column("rules", columns.JSON_TEXT))
    connection = op.get_bind()
    for id, rules in connection.execute(sa.select(roles.c.id, roles.c.rules)).all():
        kept = [_kept(rule) for rule in rules]
        if kept != rules:
            connection.execute(roles.update().where(roles.c.id == id).values(rules=kept))


def _kept(rule: dict) -> dict:
    verbs = rule.get("verbs", [])
    if "approve" not in verbs:
        return rule
    return {**rule, "verbs": [*verbs, *(one for one in _STOP_AND_GO if one not in verbs)]}
