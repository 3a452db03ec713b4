"""The tables of the first release"""

from collections.abc import Callable
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from controlplane.platform.store.columns import JSON_TEXT, UtcColumn

revision = "0001"
down_revision = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_DEFAULT_PROJECT = "00000000-0000-7000-8000-000000000001"
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_CHAINS = ("change", "sign-in", "request", "agent")
_EXTENSIONS = ("pg_trgm", "btree_gin")
_ADD_EXTENSION = (
    "DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS {name}; "
    "EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'no {name}: %', SQLERRM; END $$"
)
_SQLITE_TRIGGERS = (
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit_blocks "
    "BEGIN SELECT RAISE(ABORT, 'audit rows never change'); END",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit_blocks "
    "WHEN OLD.last_number > (SELECT floor FROM audit_chains WHERE kind = OLD.kind) "
    "BEGIN SELECT RAISE(ABORT, 'audit rows only go with the beginning of their chain'); END",
    "CREATE TRIGGER audit_terms_no_update BEFORE UPDATE ON audit_terms "
    "BEGIN SELECT RAISE(ABORT, 'the index of audit rows never changes'); END",
    "CREATE TRIGGER audit_terms_no_delete BEFORE DELETE ON audit_terms "
    "WHEN EXISTS (SELECT 1 FROM audit_blocks WHERE id = OLD.block_id) "
    "BEGIN SELECT RAISE(ABORT, 'the index of audit rows only goes with them'); END",
)
_POSTGRES_TRIGGERS = (
    """CREATE OR REPLACE FUNCTION audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF OLD.last_number <= (SELECT floor FROM audit_chains WHERE kind = OLD.kind) THEN
                RETURN OLD;
            END IF;
            RAISE EXCEPTION 'audit rows only go with the beginning of their chain';
        END IF;
        RAISE EXCEPTION 'audit rows never change';
    END $$""",
    """CREATE OR REPLACE FUNCTION audit_terms_keep() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF NOT EXISTS (SELECT 1 FROM audit_blocks WHERE id = OLD.block_id) THEN
                RETURN OLD;
            END IF;
            RAISE EXCEPTION 'the index of audit rows only goes with them';
        END IF;
        RAISE EXCEPTION 'the index of audit rows never changes';
    END $$""",
    "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE ON audit_blocks "
    "FOR EACH ROW EXECUTE FUNCTION audit_keep()",
    "CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit_blocks "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_keep()",
    "CREATE TRIGGER audit_terms_no_change BEFORE UPDATE OR DELETE ON audit_terms "
    "FOR EACH ROW EXECUTE FUNCTION audit_terms_keep()",
    "CREATE TRIGGER audit_terms_no_truncate BEFORE TRUNCATE ON audit_terms "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_terms_keep()",
)


def upgrade() -> None:
    is_postgres = op.get_bind().dialect.name == "postgresql"
    for make in _tables():
        make()
    if is_postgres:
        _search_in_postgres()
    else:
        _search_in_sqlite()
    for statement in _POSTGRES_TRIGGERS if is_postgres else _SQLITE_TRIGGERS:
        op.execute(statement)
    _add_default_project()
    _begin_audit_chains()


def _tables() -> tuple[Callable[[], None], ...]:
    """Makes each table, those that others refer to first."""
    return (
        _agent_settings,
        _audit_blocks,
        _audit_chains,
        _audit_terms,
        _bootstrap_tokens,
        _challenges,
        _cluster_groups,
        _cluster_sources,
        _clusters,
        _components,
        _configuration_sources,
        _contexts,
        _data_keys,
        _declared_resources,
        _deliveries,
        _deployments,
        _failures,
        _global_services,
        _groups,
        _images,
        _jobs,
        _ledger,
        _managed_namespaces,
        _notification_marks,
        _notification_routers,
        _notification_sinks,
        _notifications,
        _pipeline_events,
        _pipeline_gates,
        _pipeline_services,
        _pipeline_triggers,
        _pipelines,
        _plans,
        _projects,
        _refused_revisions,
        _replicas,
        _repositories,
        _revisions,
        _role_bindings,
        _roles,
        _saved_views,
        _secrets,
        _service_sets,
        _tunnels,
        _users,
        _access_requests,
        _cluster_jobs,
        _cluster_source_members,
        _commands,
        _context_overrides,
        _global_overrides,
        _logins,
        _memberships,
        _secret_versions,
        _services,
        _tokens,
        _trust_rules,
        _context_bindings,
        _secret_uses,
        _service_exports,
        _service_imports,
        _service_sources,
    )


def _add_default_project() -> None:
    projects = sa.table(
        "projects",
        sa.column("id", sa.String),
        sa.column("name", sa.String),
        sa.column("inserted_at", UtcColumn()),
        sa.column("updated_at", UtcColumn()),
        sa.column("fence", JSON_TEXT),
    )
    row = {"id": _DEFAULT_PROJECT, "name": "default", "fence": {"unrestricted": True}}
    op.bulk_insert(projects, [row | {"inserted_at": _BEGINNING, "updated_at": _BEGINNING}])


def _begin_audit_chains() -> None:
    names = ("kind", "number", "hash", "floor", "floor_hash")
    chains = sa.table("audit_chains", *(sa.column(name) for name in names))
    empty = {"number": 0, "hash": "", "floor": 0, "floor_hash": ""}
    op.bulk_insert(chains, [{"kind": kind, **empty} for kind in _CHAINS])


def _search_in_sqlite() -> None:
    """Narrow indexes that scans read instead of whole rows."""
    op.create_index("ix_components_kind_name_id", "components", ["kind", "name", "id"])
    op.create_index(
        "ix_services_listed",
        "services",
        ["id", "cluster_id", "project_id", "name", "namespace", "deleted_at"],
    )


def _search_in_postgres() -> None:
    """Indexes JSON, and names by trigrams; without the extensions by plain indexes, which search
    slower.
    """
    for name in _EXTENSIONS:
        op.execute(_ADD_EXTENSION.format(name=name))
    installed = set(op.get_bind().scalars(sa.text("SELECT extname FROM pg_extension")))
    for column in ("images", "labels"):
        op.create_index(
            f"ix_components_{column}_keys", "components", [column], postgresql_using="gin"
        )
    has_trigrams = "pg_trgm" in installed
    _index_text("services", ["name"], trigrams=has_trigrams)
    _index_text("services", ["namespace"], trigrams=has_trigrams)
    if installed.issuperset(_EXTENSIONS):
        _index_text("components", ["kind", "name"], trigrams=True)
    else:
        _index_text("components", ["name"], trigrams=has_trigrams)


def _index_text(table: str, columns: list[str], *, trigrams: bool) -> None:
    """Indexes the last column for substring search."""
    name = f"ix_{table}_{'_'.join(columns)}_parts"
    if trigrams:
        *whole, column = columns
        searched = sa.text(f'{column} COLLATE "C" gin_trgm_ops')
        op.create_index(name, table, [*whole, searched], postgresql_using="gin")
    else:
        op.create_index(name, table, columns)


def _agent_settings() -> None:
    op.create_table(
        "agent_settings",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("selector", JSON_TEXT, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("image", sa.Text(), nullable=False),
        sa.Column("size", sa.String(32), nullable=False),
        sa.Column("agent_values", sa.Text(), nullable=False),
        sa.Column("agent_values_templated", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agent_settings"),
        sa.UniqueConstraint("name", name="uq_agent_settings_name"),
    )


def _audit_blocks() -> None:
    op.create_table(
        "audit_blocks",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("first_number", sa.BigInteger(), nullable=False),
        sa.Column("last_number", sa.BigInteger(), nullable=False),
        sa.Column("first_at", UtcColumn(), nullable=False),
        sa.Column("last_at", UtcColumn(), nullable=False),
        sa.Column("previous_hash", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_blocks"),
    )
    op.create_index("ix_audit_blocks_last_at", "audit_blocks", ["last_at"])
    op.create_index(
        "uq_audit_blocks_kind_last_number", "audit_blocks", ["kind", "last_number"], unique=True
    )


def _audit_terms() -> None:
    op.create_table(
        "audit_terms",
        sa.Column("block_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("field", sa.String(16), nullable=False),
        sa.Column("value", sa.String(320), nullable=False),
        sa.PrimaryKeyConstraint("block_id", "field", "value", name="pk_audit_terms"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_audit_terms_field_value_block_id", "audit_terms", ["field", "value", "block_id"]
    )


def _audit_chains() -> None:
    op.create_table(
        "audit_chains",
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("floor", sa.BigInteger(), nullable=False),
        sa.Column("floor_hash", sa.String(64), nullable=False),
        sa.Column("floor_at", UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("kind", name="pk_audit_chains"),
    )


def _challenges() -> None:
    op.create_table(
        "challenges",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("expires_at", UtcColumn(), nullable=False),
        sa.Column("code", sa.String(16), nullable=True),
        sa.Column("detail", JSON_TEXT, nullable=False),
        sa.Column("user_id", sa.String(36), nullable=True),
        sa.Column("taken_at", UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_challenges"),
        sa.UniqueConstraint("code", name="uq_challenges_code"),
        sa.UniqueConstraint("hash", name="uq_challenges_hash"),
    )
    op.create_index("ix_challenges_expires_at", "challenges", ["expires_at"])


def _cluster_groups() -> None:
    op.create_table(
        "cluster_groups",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=True),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("tags", JSON_TEXT, nullable=False),
        sa.Column("cluster_ids", JSON_TEXT, nullable=False),
        sa.Column("frozen", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("frozen_by", sa.String(320), nullable=False),
        sa.Column("frozen_at", UtcColumn(), nullable=True),
        sa.Column("max_changing", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cluster_groups"),
        sa.UniqueConstraint("name", name="uq_cluster_groups_name"),
    )
    op.create_index("ix_cluster_groups_project_id", "cluster_groups", ["project_id"])


def _cluster_sources() -> None:
    op.create_table(
        "cluster_sources",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("service_account_id", sa.String(36), nullable=False),
        sa.Column("inventory", sa.String(32), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False),
        sa.Column("name_template", sa.String(200), nullable=False),
        sa.Column("tags", JSON_TEXT, nullable=False),
        sa.Column("tag_labels", JSON_TEXT, nullable=False),
        sa.Column("gone", sa.String(32), nullable=False),
        sa.Column("max_clusters", sa.Integer(), nullable=False),
        sa.Column("max_deletions", sa.Integer(), nullable=False),
        sa.Column("interval_s", sa.Integer(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.Column("result", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("checked_at", UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_cluster_sources"),
        sa.UniqueConstraint("name", name="uq_cluster_sources_name"),
    )
    for name in ("project_id", "cluster_id", "service_account_id"):
        op.create_index(f"ix_cluster_sources_{name}", "cluster_sources", [name])


def _clusters() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("handle", sa.String(63), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("tags", JSON_TEXT, nullable=False),
        sa.Column("metadata", JSON_TEXT, nullable=False),
        sa.Column("protect", sa.Boolean(), nullable=False),
        sa.Column("version", sa.String(64), nullable=True),
        sa.Column("kubernetes_version", sa.String(64), nullable=True),
        sa.Column("distribution", sa.String(32), nullable=True),
        sa.Column("nodes", sa.Integer(), nullable=True),
        sa.Column("agent_version", sa.String(64), nullable=True),
        sa.Column("agent_instance", sa.String(64), nullable=True),
        sa.Column("pinged_at", UtcColumn(), nullable=True),
        sa.Column("acknowledged", sa.BigInteger(), nullable=False),
        sa.Column("ending_at", UtcColumn(), nullable=True),
        sa.Column("deleted_at", UtcColumn(), nullable=True),
        sa.Column("mode", sa.String(32), nullable=False),
        sa.Column("facts", JSON_TEXT, nullable=False),
        sa.Column("agent_token_expires_at", UtcColumn(), nullable=True),
        sa.Column("sealing_key", sa.LargeBinary(), nullable=True),
        sa.Column("alarm", sa.Text(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("project_given", sa.Boolean(), nullable=False),
        sa.Column("kubernetes_uid", sa.String(64), nullable=False),
        sa.Column("bootstrap_token_id", sa.String(36), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_clusters"),
    )
    op.create_index("ix_clusters_bootstrap_token_id", "clusters", ["bootstrap_token_id"])
    op.create_index("ix_clusters_kubernetes_uid", "clusters", ["kubernetes_uid"])
    op.create_index("ix_clusters_liveness", "clusters", ["deleted_at", "pinged_at"])
    op.create_index("ix_clusters_project_id", "clusters", ["project_id"])
    op.create_index(
        "uq_clusters_handle",
        "clusters",
        ["handle"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )


def _bootstrap_tokens() -> None:
    op.create_table(
        "bootstrap_tokens",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("creator_id", sa.String(36), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("expires_at", UtcColumn(), nullable=False),
        sa.Column("max_uses", sa.Integer(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("tags", JSON_TEXT, nullable=False),
        sa.Column("adopts", sa.Boolean(), nullable=False),
        sa.Column("last_used_at", UtcColumn(), nullable=True),
        sa.Column("revoked_at", UtcColumn(), nullable=True),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_bootstrap_tokens"),
        sa.UniqueConstraint("hash", name="uq_bootstrap_tokens_hash"),
    )


def _components() -> None:
    op.create_table(
        "components",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("group", sa.String(253), nullable=False),
        sa.Column("version", sa.String(63), nullable=False),
        sa.Column("kind", sa.String(63), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("owner_uid", sa.String(64), nullable=False),
        sa.Column("state", sa.String(32), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("synced", sa.Boolean(), nullable=False),
        sa.Column("images", JSON_TEXT, nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("labels", JSON_TEXT, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(71), nullable=False),
        sa.Column("finalizers", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_components"),
    )
    op.create_index("ix_components_cluster_id", "components", ["cluster_id"])
    op.create_index("ix_components_kind_id", "components", ["kind", "id"])
    op.create_index("ix_components_owner_uid", "components", ["owner_uid"])
    op.create_index("ix_components_service_id", "components", ["service_id"])


def _contexts() -> None:
    op.create_table(
        "contexts",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("configuration", JSON_TEXT, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("project_given", sa.Boolean(), nullable=False),
        sa.Column("types", JSON_TEXT, nullable=False),
        sa.Column("by_reference", sa.Boolean(), nullable=False),
        sa.Column("secrets_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_contexts"),
        sa.UniqueConstraint("name", name="uq_contexts_name"),
    )
    op.create_index("ix_contexts_project_id", "contexts", ["project_id"])


def _data_keys() -> None:
    op.create_table(
        "data_keys",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("kek", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("begins_at", UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_data_keys"),
    )


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("notification_id", sa.BigInteger(), nullable=False),
        sa.Column("sink_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", UtcColumn(), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("finished_at", UtcColumn(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_notification_id", "deliveries", ["notification_id"])
    op.create_index("ix_deliveries_project_id", "deliveries", ["project_id"])
    op.create_index("ix_deliveries_sink_id_id", "deliveries", ["sink_id", "id"])
    op.create_index("ix_deliveries_state_due_at", "deliveries", ["state", "due_at"])


def _configuration_sources() -> None:
    op.create_table(
        "configuration_sources",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=False),
        sa.Column("ref", sa.String(255), nullable=False),
        sa.Column("folder", sa.String(1024), nullable=False),
        sa.Column("service_account_id", sa.String(36), nullable=False),
        sa.Column("mode", sa.String(32), nullable=False),
        sa.Column("prune", sa.Boolean(), nullable=False),
        sa.Column("deletion_budget", sa.Integer(), nullable=False),
        sa.Column("drift", sa.String(32), nullable=False),
        sa.Column("interval_s", sa.Integer(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.Column("result", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("seen_sha", sa.String(64), nullable=False),
        sa.Column("seen_at", UtcColumn(), nullable=True),
        sa.Column("applied_sha", sa.String(64), nullable=False),
        sa.Column("applied_at", UtcColumn(), nullable=True),
        sa.Column("checked_at", UtcColumn(), nullable=True),
        sa.Column("problems", JSON_TEXT, nullable=False),
        sa.Column("plan", JSON_TEXT, nullable=False),
        sa.Column("plan_size", sa.Integer(), nullable=False),
        sa.Column("plan_digest", sa.String(64), nullable=False),
        sa.Column("approved_digest", sa.String(64), nullable=False),
        sa.Column("approved_by", sa.String(320), nullable=False),
        sa.Column("is_requested", sa.Boolean(), nullable=False),
        sa.Column("is_forced", sa.Boolean(), nullable=False),
        sa.Column("reverts", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_configuration_sources"),
        sa.UniqueConstraint("name", name="uq_configuration_sources_name"),
    )
    for name in ("project_id", "repository_id", "service_account_id", "result"):
        op.create_index(f"ix_configuration_sources_{name}", "configuration_sources", [name])


def _declared_resources() -> None:
    op.create_table(
        "declared_resources",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(63), nullable=False),
        sa.Column("labels", JSON_TEXT, nullable=False),
        sa.Column("annotations", JSON_TEXT, nullable=False),
        sa.Column("managers", JSON_TEXT, nullable=False),
        sa.Column("prune_set", sa.String(255), nullable=False),
        sa.Column("sealed", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_declared_resources"),
    )
    op.create_index("ix_declared_resources_prune_set", "declared_resources", ["prune_set"])


def _deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("sha", sa.String(64), nullable=True),
        sa.Column("revision_id", sa.String(36), nullable=True),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("committed_at", UtcColumn(), nullable=True),
        sa.Column("fetched_at", UtcColumn(), nullable=True),
        sa.Column("desired_at", UtcColumn(), nullable=False),
        sa.Column("offered_at", UtcColumn(), nullable=True),
        sa.Column("applied_at", UtcColumn(), nullable=True),
        sa.Column("healthy_at", UtcColumn(), nullable=True),
        sa.Column("failed_at", UtcColumn(), nullable=True),
        sa.Column("restored_at", UtcColumn(), nullable=True),
        sa.Column("reverted_at", UtcColumn(), nullable=True),
        sa.Column("replaced_at", UtcColumn(), nullable=True),
        sa.Column("removed_at", UtcColumn(), nullable=True),
        sa.Column("lead_s", sa.Float(), nullable=True),
        sa.Column("restore_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("service_id", "sequence", name="pk_deployments"),
    )
    op.create_index("ix_deployments_cluster_id", "deployments", ["cluster_id"])
    op.create_index("ix_deployments_failed_at", "deployments", ["failed_at"])
    op.create_index(
        "ix_deployments_figures",
        "deployments",
        ["desired_at", "lead_s", "restore_s", "healthy_at", "failed_at", "reverted_at"],
    )
    op.create_index("ix_deployments_healthy_at_lead_s", "deployments", ["healthy_at", "lead_s"])
    op.create_index("ix_deployments_project_id", "deployments", ["project_id"])
    op.create_index("ix_deployments_sha", "deployments", ["sha"])
    op.create_index(
        "ix_deployments_standing",
        "deployments",
        ["replaced_at", "desired_at", "removed_at", "service_id", "sequence"],
    )


def _failures() -> None:
    op.create_table(
        "failures",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("until", UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_failures"),
    )
    op.create_index("ix_failures_until", "failures", ["until"])


def _global_services() -> None:
    op.create_table(
        "global_services",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=True),
        sa.Column("selector", JSON_TEXT, nullable=False),
        sa.Column("leave", sa.String(32), nullable=False),
        sa.Column("on_delete", sa.String(32), nullable=False),
        sa.Column("budget", sa.Integer(), nullable=False),
        sa.Column("confirmed", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("evaluated_at", UtcColumn(), nullable=True),
        sa.Column("ending_at", UtcColumn(), nullable=True),
        sa.Column("source_id", sa.String(36), nullable=True),
        sa.Column("template", JSON_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_global_services"),
        sa.UniqueConstraint("name", name="uq_global_services_name"),
    )
    op.create_index("ix_global_services_project_id", "global_services", ["project_id"])
    op.create_index("ix_global_services_source_id", "global_services", ["source_id"])


def _groups() -> None:
    op.create_table(
        "groups",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("everyone", sa.Boolean(), nullable=True),
        sa.Column("issuer", sa.String(512), nullable=True),
        sa.Column("external_id", sa.String(255), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_groups"),
        sa.UniqueConstraint("name", name="uq_groups_name"),
    )


def _images() -> None:
    op.create_table(
        "images",
        sa.Column("image", sa.String(1024), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("tag", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("image", name="pk_images"),
    )
    op.create_index("ix_images_name", "images", ["name"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("run_at", UtcColumn(), nullable=False),
        sa.Column("payload", JSON_TEXT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("holder", sa.String(64), nullable=True),
        sa.Column("lease_until", UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("key", name="uq_jobs_key"),
    )
    op.create_index("ix_jobs_run_at", "jobs", ["run_at"])


def _ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("at", UtcColumn(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("sha", sa.String(64), nullable=True),
        sa.Column("digest", sa.String(71), nullable=True),
        sa.Column("revision_id", sa.String(36), nullable=True),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("detail", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_ledger"),
    )
    op.create_index("ix_ledger_cluster_id_id", "ledger", ["cluster_id", "id"])
    op.create_index("ix_ledger_project_id_id", "ledger", ["project_id", "id"])
    op.create_index("ix_ledger_service_id_id", "ledger", ["service_id", "id"])


def _managed_namespaces() -> None:
    op.create_table(
        "managed_namespaces",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=True),
        sa.Column("selector", JSON_TEXT, nullable=False),
        sa.Column("leave", sa.String(32), nullable=False),
        sa.Column("on_delete", sa.String(32), nullable=False),
        sa.Column("budget", sa.Integer(), nullable=False),
        sa.Column("confirmed", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("evaluated_at", UtcColumn(), nullable=True),
        sa.Column("ending_at", UtcColumn(), nullable=True),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("labels", JSON_TEXT, nullable=False),
        sa.Column("annotations", JSON_TEXT, nullable=False),
        sa.Column("quota", JSON_TEXT, nullable=False),
        sa.Column("template", JSON_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_managed_namespaces"),
        sa.UniqueConstraint("name", name="uq_managed_namespaces_name"),
    )
    op.create_index("ix_managed_namespaces_project_id", "managed_namespaces", ["project_id"])


def _notification_marks() -> None:
    op.create_table(
        "notification_marks",
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("at", UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notification_marks"),
    )


def _notification_routers() -> None:
    op.create_table(
        "notification_routers",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("events", JSON_TEXT, nullable=False),
        sa.Column("severity", sa.String(32), nullable=False),
        sa.Column("filters", JSON_TEXT, nullable=False),
        sa.Column("sinks", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notification_routers"),
        sa.UniqueConstraint("name", name="uq_notification_routers_name"),
    )
    op.create_index("ix_notification_routers_project_id", "notification_routers", ["project_id"])


def _notification_sinks() -> None:
    op.create_table(
        "notification_sinks",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=False),
        sa.Column("audit", JSON_TEXT, nullable=False),
        sa.Column("sent", JSON_TEXT, nullable=False),
        sa.Column("due_at", UtcColumn(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notification_sinks"),
        sa.UniqueConstraint("name", name="uq_notification_sinks_name"),
    )
    op.create_index("ix_notification_sinks_project_id", "notification_sinks", ["project_id"])
    op.create_index("ix_notification_sinks_repository_id", "notification_sinks", ["repository_id"])


def _notifications() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("at", UtcColumn(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("severity", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(320), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
        sa.Column("detail", JSON_TEXT, nullable=False),
        sa.Column("routed_at", UtcColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_notifications"),
    )
    op.create_index("ix_notifications_at", "notifications", ["at"])
    op.create_index("ix_notifications_project_id_id", "notifications", ["project_id", "id"])
    op.create_index(
        "ix_notifications_waiting",
        "notifications",
        ["id"],
        sqlite_where=sa.text("routed_at IS NULL"),
        postgresql_where=sa.text("routed_at IS NULL"),
    )


def _pipeline_events() -> None:
    op.create_table(
        "pipeline_events",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
        sa.Column("at", UtcColumn(), nullable=False),
        sa.Column("events", JSON_TEXT, nullable=False),
        sa.Column("spec", JSON_TEXT, nullable=True),
        sa.Column("state", JSON_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_events"),
    )
    op.create_index("ix_pipeline_events_at", "pipeline_events", ["at"])
    op.create_index("ix_pipeline_events_pipeline_id_at", "pipeline_events", ["pipeline_id", "at"])


def _pipeline_gates() -> None:
    op.create_table(
        "pipeline_gates",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
        sa.Column("measured", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_gates"),
    )
    op.create_index("ix_pipeline_gates_pipeline_id", "pipeline_gates", ["pipeline_id"])


def _pipeline_services() -> None:
    op.create_table(
        "pipeline_services",
        sa.Column("id", sa.String(80), nullable=False),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("promoted", sa.Boolean(), nullable=False),
        sa.Column("changing", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_services"),
    )
    op.create_index("ix_pipeline_services_pipeline_id", "pipeline_services", ["pipeline_id"])
    op.create_index("ix_pipeline_services_service_id", "pipeline_services", ["service_id"])


def _pipeline_triggers() -> None:
    op.create_table(
        "pipeline_triggers",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
        sa.Column("interval_s", sa.Integer(), nullable=False),
        sa.Column("checked_at", UtcColumn(), nullable=True),
        sa.Column("next_at", UtcColumn(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("sealed_webhook", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_triggers"),
    )
    op.create_index("ix_pipeline_triggers_pipeline_id", "pipeline_triggers", ["pipeline_id"])


def _pipelines() -> None:
    op.create_table(
        "pipelines",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("spec", JSON_TEXT, nullable=False),
        sa.Column("state", JSON_TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pipelines"),
        sa.UniqueConstraint("name", name="uq_pipelines_name"),
    )
    op.create_index("ix_pipelines_project_id", "pipelines", ["project_id"])


def _plans() -> None:
    op.create_table(
        "plans",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("changes", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
    )


def _projects() -> None:
    op.create_table(
        "projects",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("fence", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("name", name="uq_projects_name"),
    )


def _refused_revisions() -> None:
    op.create_table(
        "refused_revisions",
        sa.Column("id", sa.String(192), nullable=False),
        sa.Column("revision", sa.String(128), nullable=False),
        sa.Column("project_id", sa.String(36)),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_refused_revisions"),
    )
    op.create_index("ix_refused_revisions_revision", "refused_revisions", ["revision"])


def _replicas() -> None:
    op.create_table(
        "replicas",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("address", sa.String(255), nullable=False),
        sa.Column("heartbeat", UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_replicas"),
    )


def _repositories() -> None:
    op.create_table(
        "repositories",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("auth_method", sa.String(32), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_webhook", sa.LargeBinary(), nullable=True),
        sa.Column("decrypt", sa.Boolean(), nullable=False),
        sa.Column("health", sa.String(32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("commits", JSON_TEXT, nullable=False),
        sa.Column("polled_at", UtcColumn(), nullable=True),
        sa.Column("fetched_at", UtcColumn(), nullable=True),
        sa.Column("via", sa.String(36), nullable=True),
        sa.Column("submodules", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.String(255), nullable=True),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("https_path", sa.String(2048), nullable=True),
        sa.Column("url_format", sa.String(2048), nullable=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_repositories"),
        sa.UniqueConstraint("url", name="uq_repositories_url"),
    )
    op.create_index("ix_repositories_project_id", "repositories", ["project_id"])
    op.create_table(
        "pushes",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=False),
        sa.Column("commit_sha", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("email", sa.String(320), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pushes"),
    )
    op.create_index("ix_pushes_commit_sha", "pushes", ["commit_sha"])
    op.create_index("ix_pushes_inserted_at", "pushes", ["inserted_at"])


def _revisions() -> None:
    op.create_table(
        "revisions",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("sha", sa.String(64), nullable=False),
        sa.Column("ref", sa.String(255), nullable=False),
        sa.Column("folder", sa.String(1024), nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("source", sa.String(71), nullable=False),
        sa.Column("author", sa.String(512), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        sa.Column("committed_at", UtcColumn(), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("release_id", sa.String(64), nullable=True),
        sa.Column("attestation", JSON_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_revisions"),
    )
    op.create_index("ix_revisions_service_id", "revisions", ["service_id"])


def _role_bindings() -> None:
    op.create_table(
        "role_bindings",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("role_id", sa.String(36), nullable=False),
        sa.Column("subject_kind", sa.String(32), nullable=False),
        sa.Column("subject_id", sa.String(36), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("expires_at", UtcColumn(), nullable=True),
        sa.Column("given_by", sa.String(320), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("name", sa.String(255), nullable=True),
        sa.Column("ended_at", UtcColumn(), nullable=True),
        sa.Column("cluster_tags", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_role_bindings"),
        sa.UniqueConstraint("name", name="uq_role_bindings_name"),
    )
    op.create_index("ix_role_bindings_expires_at", "role_bindings", ["expires_at"])
    op.create_index("ix_role_bindings_role_id", "role_bindings", ["role_id"])
    op.create_index("ix_role_bindings_scope", "role_bindings", ["scope"])
    op.create_index("ix_role_bindings_subject_id", "role_bindings", ["subject_id"])


def _roles() -> None:
    op.create_table(
        "roles",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("rules", JSON_TEXT, nullable=False),
        sa.Column("kubernetes", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_roles"),
        sa.UniqueConstraint("name", name="uq_roles_name"),
    )


def _saved_views() -> None:
    op.create_table(
        "saved_views",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("list", sa.String(255), nullable=False),
        sa.Column("owner_id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(320), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("filters", JSON_TEXT, nullable=False),
        sa.Column("columns", JSON_TEXT, nullable=False),
        sa.Column("order", sa.String(65), nullable=False),
        sa.Column("sharing", sa.String(32), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_saved_views"),
        sa.UniqueConstraint("owner_id", "list", "name", name="uq_saved_views_owner_id_list_name"),
    )
    op.create_index("ix_saved_views_project_id", "saved_views", ["project_id"])
    op.create_index("ix_saved_views_sharing", "saved_views", ["sharing"])


def _secrets() -> None:
    op.create_table(
        "secrets",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("current", sa.Integer(), nullable=False),
        sa.Column("newest", sa.Integer(), nullable=False),
        sa.Column("source", JSON_TEXT, nullable=True),
        sa.Column("refresh_s", sa.Integer(), nullable=False),
        sa.Column("due_at", UtcColumn(), nullable=True),
        sa.Column("refreshed_at", UtcColumn(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("plan", JSON_TEXT, nullable=True),
        sa.Column("rotation", JSON_TEXT, nullable=True),
        sa.Column("generate", JSON_TEXT, nullable=True),
        sa.Column("sealed_value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_secrets"),
        sa.UniqueConstraint("name", name="uq_secrets_name"),
    )
    op.create_index("ix_secrets_due_at", "secrets", ["due_at"])
    op.create_index("ix_secrets_project_id", "secrets", ["project_id"])


def _service_sets() -> None:
    op.create_table(
        "service_sets",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=True),
        sa.Column("selector", JSON_TEXT, nullable=False),
        sa.Column("leave", sa.String(32), nullable=False),
        sa.Column("on_delete", sa.String(32), nullable=False),
        sa.Column("budget", sa.Integer(), nullable=False),
        sa.Column("confirmed", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("evaluated_at", UtcColumn(), nullable=True),
        sa.Column("ending_at", UtcColumn(), nullable=True),
        sa.Column("generator", JSON_TEXT, nullable=False),
        sa.Column("template", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_service_sets"),
        sa.UniqueConstraint("name", name="uq_service_sets_name"),
    )
    op.create_index("ix_service_sets_project_id", "service_sets", ["project_id"])


def _tunnels() -> None:
    op.create_table(
        "tunnels",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("since", UtcColumn(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("replica_id", sa.String(36), nullable=True),
        sa.Column("instance", sa.String(64), nullable=False),
        sa.Column("peer", sa.String(255), nullable=False),
        sa.Column("swaps", JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tunnels"),
    )
    op.create_index("ix_tunnels_replica_id", "tunnels", ["replica_id"])


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("email", sa.String(320), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("disabled_at", UtcColumn(), nullable=True),
        sa.Column("password", sa.String(255), nullable=True),
        sa.Column("issuer", sa.String(512), nullable=True),
        sa.Column("external_id", sa.String(255), nullable=True),
        sa.Column("disabled_by", sa.String(512), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("email", name="uq_users_email"),
    )
    op.create_index("ix_users_issuer", "users", ["issuer", "external_id"])


def _access_requests() -> None:
    op.create_table(
        "access_requests",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("user_id", sa.String(36), nullable=False),
        sa.Column("role_id", sa.String(36), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("minutes", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("decided_by", sa.String(320), nullable=False),
        sa.Column("decided_at", UtcColumn(), nullable=True),
        sa.Column("binding_id", sa.String(36), nullable=True),
        sa.Column("expires_at", UtcColumn(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_access_requests_user_id_users"),
        sa.PrimaryKeyConstraint("id", name="pk_access_requests"),
    )
    op.create_index("ix_access_requests_state", "access_requests", ["state"])
    op.create_index("ix_access_requests_user_id", "access_requests", ["user_id"])


def _cluster_source_members() -> None:
    op.create_table(
        "cluster_source_members",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("source_id", sa.String(36), nullable=False),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=True),
        sa.Column("tags", JSON_TEXT, nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("properties", JSON_TEXT, nullable=False),
        sa.Column("token_id", sa.String(36), nullable=True),
        sa.Column("gone_at", UtcColumn(), nullable=True),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["cluster_sources.id"],
            name="fk_cluster_source_members_source_id_cluster_sources",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_cluster_source_members"),
    )
    op.create_index(
        "uq_cluster_source_members_object",
        "cluster_source_members",
        ["source_id", "uid"],
        unique=True,
    )


def _cluster_jobs() -> None:
    op.create_table(
        "cluster_jobs",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("manifest", JSON_TEXT, nullable=False),
        sa.Column("timeout_s", sa.Integer(), nullable=False),
        sa.Column("follow", sa.Boolean(), nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("object", JSON_TEXT, nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("started_at", UtcColumn(), nullable=True),
        sa.Column("finished_at", UtcColumn(), nullable=True),
        sa.Column("log_tail", sa.Text(), nullable=False),
        sa.Column("outputs", JSON_TEXT, nullable=False),
        sa.Column("retry_of", sa.String(36), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_cluster_jobs_cluster_id_clusters"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_cluster_jobs"),
        sa.UniqueConstraint("key", name="uq_cluster_jobs_key"),
    )
    op.create_index("ix_cluster_jobs_cluster_id", "cluster_jobs", ["cluster_id"])


def _commands() -> None:
    op.create_table(
        "commands",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=True),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("finished_at", UtcColumn(), nullable=True),
        sa.Column("payload", JSON_TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_commands_cluster_id_clusters"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_commands"),
    )
    op.create_index("ix_commands_cluster_id_state", "commands", ["cluster_id", "state"])
    op.create_index("ix_commands_state_inserted_at", "commands", ["state", "inserted_at"])


def _context_overrides() -> None:
    op.create_table(
        "context_overrides",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("context_id", sa.String(36), nullable=False),
        sa.Column("layer", sa.String(32), nullable=False),
        sa.Column("place_id", sa.String(36), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("configuration", JSON_TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["context_id"], ["contexts.id"], name="fk_context_overrides_context_id_contexts"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_context_overrides"),
        sa.UniqueConstraint(
            "context_id", "layer", "place_id", name="uq_context_overrides_context_id_layer_place_id"
        ),
    )
    op.create_index("ix_context_overrides_place_id", "context_overrides", ["place_id"])


def _global_overrides() -> None:
    op.create_table(
        "global_overrides",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("global_id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("patch", JSON_TEXT, nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.ForeignKeyConstraint(
            ["global_id"],
            ["global_services.id"],
            name="fk_global_overrides_global_id_global_services",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_global_overrides"),
    )
    op.create_index("ix_global_overrides_cluster_id", "global_overrides", ["cluster_id"])
    op.create_index(
        "uq_global_overrides_global_id_cluster_id",
        "global_overrides",
        ["global_id", "cluster_id"],
        unique=True,
    )


def _logins() -> None:
    op.create_table(
        "logins",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("issuer", sa.String(512), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        sa.Column("user_id", sa.String(36), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_logins_user_id_users"),
        sa.PrimaryKeyConstraint("id", name="pk_logins"),
    )
    op.create_index("ix_logins_user_id", "logins", ["user_id"])
    op.create_index("uq_logins_issuer_subject", "logins", ["issuer", "subject"], unique=True)


def _memberships() -> None:
    op.create_table(
        "memberships",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("group_id", sa.String(36), nullable=False),
        sa.Column("user_id", sa.String(36), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("issuer", sa.String(512), nullable=True),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name="fk_memberships_group_id_groups"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_memberships_user_id_users"),
        sa.PrimaryKeyConstraint("id", name="pk_memberships"),
    )
    op.create_index("ix_memberships_user_id", "memberships", ["user_id"])
    op.create_index(
        "uq_memberships_group_id_user_id", "memberships", ["group_id", "user_id"], unique=True
    )


def _secret_versions() -> None:
    op.create_table(
        "secret_versions",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("secret_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("revoked_at", UtcColumn(), nullable=True),
        sa.ForeignKeyConstraint(
            ["secret_id"], ["secrets.id"], name="fk_secret_versions_secret_id_secrets"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_secret_versions"),
        sa.UniqueConstraint("secret_id", "number", name="uq_secret_versions_secret_id_number"),
    )


def _services() -> None:
    op.create_table(
        "services",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=True),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("ref", sa.String(255), nullable=False),
        sa.Column("folder", sa.String(1024), nullable=False),
        sa.Column("renderer", sa.String(32), nullable=False),
        sa.Column("kustomize_path", sa.String(1024), nullable=True),
        sa.Column("helm", JSON_TEXT, nullable=True),
        sa.Column("configuration", JSON_TEXT, nullable=False),
        sa.Column("templated", sa.Boolean(), nullable=False),
        sa.Column("rendering", JSON_TEXT, nullable=False),
        sa.Column("protect", sa.Boolean(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("options", JSON_TEXT, nullable=False),
        sa.Column("pinned_sha", sa.String(64), nullable=True),
        sa.Column("commits_behind", sa.Integer(), nullable=True),
        sa.Column("promoted", sa.Boolean(), nullable=False),
        sa.Column("commit_sha", sa.String(64), nullable=True),
        sa.Column("author", sa.String(512), nullable=False),
        sa.Column("revision_id", sa.String(36), nullable=True),
        sa.Column("input_digest", sa.String(71), nullable=True),
        sa.Column("reads", JSON_TEXT, nullable=False),
        sa.Column("digest", sa.String(71), nullable=True),
        sa.Column("bundle_bytes", sa.BigInteger(), nullable=False),
        sa.Column("object_count", sa.Integer(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("observed_generation", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(32), nullable=True),
        sa.Column("render_error", sa.Text(), nullable=True),
        sa.Column("render_reason", sa.String(64), nullable=False),
        sa.Column("problems", JSON_TEXT, nullable=False),
        sa.Column("observed_at", UtcColumn(), nullable=True),
        sa.Column("deleted_at", UtcColumn(), nullable=True),
        sa.Column("removal", sa.String(32), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("awaiting", JSON_TEXT, nullable=False),
        sa.Column("drifted", sa.Integer(), nullable=False),
        sa.Column("inputs", JSON_TEXT, nullable=True),
        sa.Column("confirmed", JSON_TEXT, nullable=True),
        sa.Column("mirrored", sa.Boolean(), nullable=False),
        sa.Column("origin", sa.String(2048), nullable=False),
        sa.Column("reported_id", sa.String(36), nullable=False),
        sa.Column("attestation", JSON_TEXT, nullable=True),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("status_code", sa.String(1), nullable=False),
        sa.Column("docs_path", sa.String(1024), nullable=True),
        sa.Column("dependencies", JSON_TEXT, nullable=False),
        sa.Column("waiting", sa.Boolean(), nullable=False),
        sa.Column("wait_skipped", sa.Boolean(), nullable=False),
        sa.Column("owner_kind", sa.String(32), nullable=True),
        sa.Column("owner_id", sa.String(36), nullable=True),
        sa.Column("rendered_by", sa.String(36), nullable=True),
        sa.Column("uses_secrets", sa.Boolean(), nullable=False),
        sa.Column("verification", JSON_TEXT, nullable=True),
        sa.Column("stage_verification", JSON_TEXT, nullable=True),
        sa.Column("quarantined", sa.String(128), nullable=True),
        sa.Column("quarantine", JSON_TEXT, nullable=True),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_services_cluster_id_clusters"
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["repositories.id"], name="fk_services_repository_id_repositories"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_services"),
    )
    op.create_index("ix_services_by_name", "services", ["name", "id", "status_code"])
    op.create_index("ix_services_cluster_id", "services", ["cluster_id"])
    op.create_index("ix_services_digest", "services", ["digest"])
    op.create_index("ix_services_quarantined", "services", ["quarantined"])
    op.create_index(
        "ix_services_map",
        "services",
        ["cluster_id", "name", "status_code", "namespace", "project_id"],
    )
    op.create_index("ix_services_status_code_id", "services", ["status_code", "id"])
    op.create_index("ix_services_owner_id", "services", ["owner_id"])
    op.create_index("ix_services_project_id", "services", ["project_id"])
    op.create_index("ix_services_project_id_id", "services", ["project_id", "id"])
    op.create_index("ix_services_repository_id", "services", ["repository_id"])
    op.create_index("ix_services_repository_id_id", "services", ["repository_id", "id"])
    op.create_index("uq_services_cluster_id_name", "services", ["cluster_id", "name"], unique=True)


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("user_id", sa.String(36), nullable=True),
        sa.Column("cluster_id", sa.String(36), nullable=True),
        sa.Column("expires_at", UtcColumn(), nullable=True),
        sa.Column("last_used_at", UtcColumn(), nullable=True),
        sa.Column("revoked_at", UtcColumn(), nullable=True),
        sa.Column("limits", JSON_TEXT, nullable=False),
        sa.Column("idle_at", UtcColumn(), nullable=True),
        sa.Column("parent_id", sa.String(36), nullable=True),
        sa.Column("source", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_tokens_cluster_id_clusters"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tokens_user_id_users"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )
    op.create_index("ix_tokens_cluster_id", "tokens", ["cluster_id"])
    op.create_index("ix_tokens_user_id", "tokens", ["user_id"])


def _trust_rules() -> None:
    op.create_table(
        "trust_rules",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", UtcColumn(), nullable=False),
        sa.Column("updated_at", UtcColumn(), nullable=False),
        sa.Column("service_account_id", sa.String(36), nullable=False),
        sa.Column("issuer", sa.String(512), nullable=False),
        sa.Column("audience", sa.String(512), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        sa.Column("claims", JSON_TEXT, nullable=False),
        sa.Column("minutes", sa.Integer(), nullable=False),
        sa.Column("keys", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["service_account_id"], ["users.id"], name="fk_trust_rules_service_account_id_users"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_trust_rules"),
        sa.UniqueConstraint("name", name="uq_trust_rules_name"),
    )
    op.create_index("ix_trust_rules_issuer", "trust_rules", ["issuer"])
    op.create_index("ix_trust_rules_service_account_id", "trust_rules", ["service_account_id"])


def _context_bindings() -> None:
    op.create_table(
        "context_bindings",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("context_id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("may_reveal", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["context_id"], ["contexts.id"], name="fk_context_bindings_context_id_contexts"
        ),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name="fk_context_bindings_service_id_services"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_context_bindings"),
        sa.UniqueConstraint(
            "service_id", "context_id", name="uq_context_bindings_service_id_context_id"
        ),
    )
    op.create_index("ix_context_bindings_context_id", "context_bindings", ["context_id"])


def _secret_uses() -> None:
    op.create_table(
        "secret_uses",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("secret_id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", UtcColumn(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["secret_id"], ["secrets.id"], name="fk_secret_uses_secret_id_secrets"
        ),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name="fk_secret_uses_service_id_services"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_secret_uses"),
        sa.UniqueConstraint("service_id", "name", name="uq_secret_uses_service_id_name"),
    )
    op.create_index("ix_secret_uses_secret_id", "secret_uses", ["secret_id"])


def _service_exports() -> None:
    op.create_table(
        "service_exports",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("value", JSON_TEXT, nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name="fk_service_exports_service_id_services"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_service_exports"),
        sa.UniqueConstraint("service_id", "name", name="uq_service_exports_service_id_name"),
    )


def _service_imports() -> None:
    op.create_table(
        "service_imports",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("alias", sa.String(63), nullable=False),
        sa.Column("source_id", sa.String(36), nullable=False),
        sa.Column("export", sa.String(63), nullable=False),
        sa.Column("default", JSON_TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name="fk_service_imports_service_id_services"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_service_imports"),
        sa.UniqueConstraint("service_id", "alias", name="uq_service_imports_service_id_alias"),
    )
    op.create_index("ix_service_imports_source_id", "service_imports", ["source_id"])


def _service_sources() -> None:
    op.create_table(
        "service_sources",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("ref", sa.String(255), nullable=False),
        sa.Column("folder", sa.String(1024), nullable=False),
        sa.Column("path", sa.String(1024), nullable=False),
        sa.Column("sha", sa.String(64), nullable=False),
        sa.Column("tree", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name="fk_service_sources_repository_id_repositories",
        ),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name="fk_service_sources_service_id_services"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_service_sources"),
    )
    op.create_index("ix_service_sources_repository_id", "service_sources", ["repository_id"])
    op.create_index("ix_service_sources_service_id", "service_sources", ["service_id"])
