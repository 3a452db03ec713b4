"""Projects, groups, roles, bindings, and what signing in remembers"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0002"
down_revision = "0001"

_DEFAULT_PROJECT = "00000000-0000-7000-8000-000000000001"
_NEVER = datetime(2026, 1, 1, tzinfo=UTC)


def upgrade() -> None:
    _people()
    _access()
    _signing_in()
    _bind_roles()
    with op.batch_alter_table("users") as batch:
        batch.drop_column("role")
        batch.alter_column("kind", server_default=None)
    with op.batch_alter_table("tokens") as batch:
        batch.alter_column("limits", server_default=None)
        batch.alter_column("source", server_default=None)


def _id() -> sa.Column:
    return sa.Column("id", sa.String(36), nullable=False)


def _times() -> tuple[sa.Column, sa.Column]:
    return (
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
    )


def _table(name: str, *parts: sa.Column, indexed: tuple[str, ...] = ()) -> None:
    op.create_table(name, *parts, sa.PrimaryKeyConstraint("id", name=f"pk_{name}"))
    for column in indexed:
        op.create_index(f"ix_{name}_{column}", name, [column])


def _user_id() -> sa.Column:
    return sa.Column("user_id", sa.String(36), nullable=False)


def _references(table: str, *others: str) -> None:
    with op.batch_alter_table(table) as batch:
        for other in others:
            column = f"{other.removesuffix('s')}_id"
            batch.create_foreign_key(f"fk_{table}_{column}_{other}", other, [column], ["id"])


def _people() -> None:
    with op.batch_alter_table("users") as batch:
        batch.add_column(sa.Column("kind", sa.String(32), nullable=False, server_default="person"))
        batch.add_column(sa.Column("password", sa.String(255)))
    with op.batch_alter_table("tokens") as batch:
        batch.add_column(
            sa.Column("limits", columns.JSON_TEXT, nullable=False, server_default="[]")
        )
        batch.add_column(sa.Column("idle_at", columns.UtcColumn()))
        batch.add_column(sa.Column("parent_id", sa.String(36)))
        batch.add_column(sa.Column("source", sa.String(64), nullable=False, server_default=""))
    _table(
        "groups",
        _id(),
        sa.Column("name", sa.String(255), nullable=False),
        *_times(),
        sa.Column("description", sa.Text),
        sa.Column("everyone", sa.Boolean),
        sa.Column("issuer", sa.String(512)),
    )
    _table(
        "memberships",
        _id(),
        sa.Column("group_id", sa.String(36), nullable=False),
        _user_id(),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("issuer", sa.String(512)),
        indexed=("user_id",),
    )
    _references("memberships", "groups", "users")
    op.create_index(
        "uq_memberships_group_id_user_id", "memberships", ["group_id", "user_id"], unique=True
    )
    _table(
        "logins",
        _id(),
        sa.Column("issuer", sa.String(512), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        _user_id(),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        indexed=("user_id",),
    )
    _references("logins", "users")
    op.create_index("uq_logins_issuer_subject", "logins", ["issuer", "subject"], unique=True)
    _unique("groups", "name")


def _access() -> None:
    _table(
        "projects",
        _id(),
        sa.Column("name", sa.String(255), nullable=False),
        *_times(),
        sa.Column("description", sa.Text),
    )
    _table(
        "roles",
        _id(),
        sa.Column("name", sa.String(255), nullable=False),
        *_times(),
        sa.Column("description", sa.Text),
        sa.Column("rules", columns.JSON_TEXT, nullable=False),
        sa.Column("kubernetes", columns.JSON_TEXT, nullable=False),
    )
    _table(
        "role_bindings",
        _id(),
        sa.Column("role_id", sa.String(36), nullable=False),
        sa.Column("subject_kind", sa.String(32), nullable=False),
        sa.Column("subject_id", sa.String(36), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("expires_at", columns.UtcColumn()),
        sa.Column("given_by", sa.String(320), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        indexed=("role_id", "subject_id", "scope", "expires_at"),
    )
    _table(
        "access_requests",
        _id(),
        _user_id(),
        sa.Column("role_id", sa.String(36), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("minutes", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("decided_by", sa.String(320), nullable=False),
        sa.Column("decided_at", columns.UtcColumn()),
        sa.Column("binding_id", sa.String(36)),
        sa.Column("expires_at", columns.UtcColumn()),
        indexed=("user_id", "state"),
    )
    _references("access_requests", "users")
    _unique("projects", "name")
    _unique("roles", "name")
    for table in ("clusters", "repositories", "services", "pipelines"):
        with op.batch_alter_table(table) as batch:
            batch.add_column(sa.Column("project_id", sa.String(36)))
        op.create_index(f"ix_{table}_project_id", table, ["project_id"])


def _signing_in() -> None:
    _table(
        "challenges",
        _id(),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("expires_at", columns.UtcColumn(), nullable=False),
        sa.Column("code", sa.String(16)),
        sa.Column("detail", columns.JSON_TEXT, nullable=False),
        sa.Column("user_id", sa.String(36)),
        sa.Column("taken_at", columns.UtcColumn()),
        indexed=("expires_at",),
    )
    _unique("challenges", "hash")
    _unique("challenges", "code")
    _table(
        "failures",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("until", columns.UtcColumn(), nullable=False),
        indexed=("until",),
    )
    _table(
        "trust_rules",
        _id(),
        _user_id(),
        sa.Column("issuer", sa.String(512), nullable=False),
        sa.Column("audience", sa.String(512), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("claims", columns.JSON_TEXT, nullable=False),
        sa.Column("minutes", sa.Integer, nullable=False),
        sa.Column("keys", sa.Text),
        indexed=("user_id", "issuer"),
    )
    _references("trust_rules", "users")


def _unique(table: str, column: str) -> None:
    with op.batch_alter_table(table) as batch:
        batch.create_unique_constraint(f"uq_{table}_{column}", [column])


def _bind_roles() -> None:
    """What users could do everywhere, they can do now by a binding."""
    name = sa.String
    projects = sa.table(
        "projects",
        sa.column("id", name),
        sa.column("name", name),
        sa.column("inserted_at", columns.UtcColumn()),
        sa.column("updated_at", columns.UtcColumn()),
    )
    row = {"id": _DEFAULT_PROJECT, "name": "default", "inserted_at": _NEVER, "updated_at": _NEVER}
    op.bulk_insert(projects, [row])
    op.execute(
        "INSERT INTO role_bindings"
        " (id, role_id, subject_kind, subject_id, scope, inserted_at, given_by, reason)"
        " SELECT id, role, 'user', id, 'installation', inserted_at, 'towline', 'as before 0002'"
        " FROM users"
    )
