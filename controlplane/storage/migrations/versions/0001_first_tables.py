"""First tables"""

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at", columns.UtcColumn(), nullable=False),
        sa.Column("actor", sa.String(length=320), nullable=False),
        sa.Column("action", sa.String(length=128), nullable=False),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("actor_id", sa.String(length=36), nullable=False),
        sa.Column("token_id", sa.String(length=36), nullable=True),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=320), nullable=False),
        sa.Column("target_id", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("detail", columns.JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_table(
        "clusters",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("handle", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.Column("tags", columns.JSON_TEXT, nullable=False),
        sa.Column("metadata", columns.JSON_TEXT, nullable=False),
        sa.Column("protect", sa.Boolean(), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=True),
        sa.Column("kubernetes_version", sa.String(length=64), nullable=True),
        sa.Column("distribution", sa.String(32), nullable=True),
        sa.Column("nodes", sa.Integer(), nullable=True),
        sa.Column("agent_version", sa.String(length=64), nullable=True),
        sa.Column("agent_instance", sa.String(length=64), nullable=True),
        sa.Column("pinged_at", columns.UtcColumn(), nullable=True),
        sa.Column("acknowledged", sa.BigInteger(), nullable=False),
        sa.Column("ending_at", columns.UtcColumn(), nullable=True),
        sa.Column("deleted_at", columns.UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
    )
    with op.batch_alter_table("clusters", schema=None) as batch_op:
        batch_op.create_index(
            "uq_clusters_handle",
            ["handle"],
            unique=True,
            sqlite_where=sa.text("deleted_at IS NULL"),
            postgresql_where=sa.text("deleted_at IS NULL"),
        )

    op.create_table(
        "components",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("service_id", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("group", sa.String(length=253), nullable=False),
        sa.Column("version", sa.String(length=63), nullable=False),
        sa.Column("kind", sa.String(length=63), nullable=False),
        sa.Column("namespace", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=253), nullable=False),
        sa.Column("uid", sa.String(length=64), nullable=False),
        sa.Column("owner_uid", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(32), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("synced", sa.Boolean(), nullable=False),
        sa.Column("images", columns.JSON_TEXT, nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_components")),
    )
    with op.batch_alter_table("components", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_components_cluster_id"), ["cluster_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_components_service_id"), ["service_id"], unique=False)

    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("run_at", columns.UtcColumn(), nullable=False),
        sa.Column("payload", columns.JSON_TEXT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("holder", sa.String(length=64), nullable=True),
        sa.Column("lease_until", columns.UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("key", name=op.f("uq_jobs_key")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_jobs_run_at"), ["run_at"], unique=False)

    op.create_table(
        "ledger",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("service_id", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("at", columns.UtcColumn(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("sha", sa.String(length=64), nullable=True),
        sa.Column("digest", sa.String(length=71), nullable=True),
        sa.Column("revision_id", sa.String(length=36), nullable=True),
        sa.Column("actor", sa.String(length=320), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("detail", columns.JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger")),
    )
    with op.batch_alter_table("ledger", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_ledger_cluster_id_id"), ["cluster_id", "id"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_ledger_service_id_id"), ["service_id", "id"], unique=False
        )

    op.create_table(
        "pipelines",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.Column("spec", columns.JSON_TEXT, nullable=False),
        sa.Column("state", columns.JSON_TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pipelines")),
        sa.UniqueConstraint("name", name=op.f("uq_pipelines_name")),
    )
    op.create_table(
        "repositories",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("url", sa.String(length=2048), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.Column("auth_method", sa.String(32), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_webhook", sa.LargeBinary(), nullable=True),
        sa.Column("decrypt", sa.Boolean(), nullable=False),
        sa.Column("health", sa.String(32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("commits", columns.JSON_TEXT, nullable=False),
        sa.Column("polled_at", columns.UtcColumn(), nullable=True),
        sa.Column("fetched_at", columns.UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repositories")),
        sa.UniqueConstraint("url", name=op.f("uq_repositories_url")),
    )
    op.create_table(
        "revisions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("service_id", sa.String(length=36), nullable=False),
        sa.Column("sha", sa.String(length=64), nullable=False),
        sa.Column("ref", sa.String(length=255), nullable=False),
        sa.Column("folder", sa.String(length=1024), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("source", sa.String(length=71), nullable=False),
        sa.Column("author", sa.String(length=512), nullable=False),
        sa.Column("subject", sa.String(length=512), nullable=False),
        sa.Column("committed_at", columns.UtcColumn(), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("actor", sa.String(length=320), nullable=False),
        sa.Column("release_id", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_revisions")),
    )
    with op.batch_alter_table("revisions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_revisions_service_id"), ["service_id"], unique=False)

    op.create_table(
        "users",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("email", sa.String(length=320), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(32), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.Column("disabled_at", columns.UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("email", name=op.f("uq_users_email")),
    )
    op.create_table(
        "commands",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("service_id", sa.String(length=36), nullable=True),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("finished_at", columns.UtcColumn(), nullable=True),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_commands_cluster_id_clusters")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commands")),
    )
    with op.batch_alter_table("commands", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_commands_cluster_id_state"), ["cluster_id", "state"], unique=False
        )

    op.create_table(
        "services",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("repository_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("namespace", sa.String(length=63), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.Column("ref", sa.String(length=255), nullable=False),
        sa.Column("folder", sa.String(length=1024), nullable=False),
        sa.Column("renderer", sa.String(32), nullable=False),
        sa.Column("kustomize_path", sa.String(length=1024), nullable=True),
        sa.Column("helm", columns.JSON_TEXT, nullable=True),
        sa.Column("configuration", columns.JSON_TEXT, nullable=False),
        sa.Column("templated", sa.Boolean(), nullable=False),
        sa.Column("protect", sa.Boolean(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("options", columns.JSON_TEXT, nullable=False),
        sa.Column("pinned", sa.String(length=64), nullable=True),
        sa.Column("promoted", sa.Boolean(), nullable=False),
        sa.Column("sha", sa.String(length=64), nullable=True),
        sa.Column("author", sa.String(length=512), nullable=False),
        sa.Column("revision_id", sa.String(length=36), nullable=True),
        sa.Column("source", sa.String(length=71), nullable=True),
        sa.Column("reads", columns.JSON_TEXT, nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=True),
        sa.Column("bundle_bytes", sa.BigInteger(), nullable=False),
        sa.Column("object_count", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("observed", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(32), nullable=True),
        sa.Column("render_error", sa.Text(), nullable=True),
        sa.Column("problems", columns.JSON_TEXT, nullable=False),
        sa.Column("observed_at", columns.UtcColumn(), nullable=True),
        sa.Column("deleted_at", columns.UtcColumn(), nullable=True),
        sa.Column("removal", sa.String(32), nullable=True),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_services_cluster_id_clusters")
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name=op.f("fk_services_repository_id_repositories"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
    )
    with op.batch_alter_table("services", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_services_cluster_id"), ["cluster_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_services_digest"), ["digest"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_services_repository_id"), ["repository_id"], unique=False
        )
        batch_op.create_index("uq_services_cluster_id_name", ["cluster_id", "name"], unique=True)

    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=True),
        sa.Column("cluster_id", sa.String(length=36), nullable=True),
        sa.Column("expires_at", columns.UtcColumn(), nullable=True),
        sa.Column("last_used_at", columns.UtcColumn(), nullable=True),
        sa.Column("revoked_at", columns.UtcColumn(), nullable=True),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_tokens_cluster_id_clusters")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id_users")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    with op.batch_alter_table("tokens", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_tokens_cluster_id"), ["cluster_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_tokens_user_id"), ["user_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("tokens", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_tokens_user_id"))
        batch_op.drop_index(batch_op.f("ix_tokens_cluster_id"))

    op.drop_table("tokens")
    with op.batch_alter_table("services", schema=None) as batch_op:
        batch_op.drop_index("uq_services_cluster_id_name")
        batch_op.drop_index(batch_op.f("ix_services_repository_id"))
        batch_op.drop_index(batch_op.f("ix_services_digest"))
        batch_op.drop_index(batch_op.f("ix_services_cluster_id"))

    op.drop_table("services")
    with op.batch_alter_table("commands", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_commands_cluster_id_state"))

    op.drop_table("commands")
    op.drop_table("users")
    with op.batch_alter_table("revisions", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_revisions_service_id"))

    op.drop_table("revisions")
    op.drop_table("repositories")
    op.drop_table("pipelines")
    with op.batch_alter_table("ledger", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_ledger_service_id_id"))
        batch_op.drop_index(batch_op.f("ix_ledger_cluster_id_id"))

    op.drop_table("ledger")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_jobs_run_at"))

    op.drop_table("jobs")
    with op.batch_alter_table("components", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_components_service_id"))
        batch_op.drop_index(batch_op.f("ix_components_cluster_id"))

    op.drop_table("components")
    with op.batch_alter_table("clusters", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_clusters_handle",
            sqlite_where=sa.text("deleted_at IS NULL"),
            postgresql_where=sa.text("deleted_at IS NULL"),
        )

    op.drop_table("clusters")
    op.drop_table("audit")
