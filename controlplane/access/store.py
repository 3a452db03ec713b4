"""Tables of users, tokens, roles and sign-in."""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from controlplane.access.model.bindings import (
    AccessRequest,
    AccessRequestState,
    Binding,
    Project,
    SubjectKind,
)
from controlplane.access.model.sign_in import (
    ChallengeKind,
    SignInChallenge,
    SignInFailures,
)
from controlplane.access.model.trust_rules import TrustRule
from controlplane.access.model.users import Group, Login, Membership, Token, User, UserKind
from controlplane.access.ports import (
    AccessRequestStore,
    ChallengeStore,
    GroupStore,
    LoginStore,
    MembershipStore,
    ProjectStore,
    RoleBindingStore,
    RoleStore,
    SignInFailureStore,
    TokenStore,
    TrustRuleStore,
    UserStore,
)
from controlplane.authorization import Fence, KubernetesRights, Role
from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.rights import LimitsColumn, RulesColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import id_column, metadata, named_columns, time_columns
from core.identity import TokenKind

users = Table(
    "users",
    metadata,
    id_column(),
    Column("email", String(320), nullable=False, unique=True),
    Column("name", String(255), nullable=False),
    *time_columns(),
    Column("kind", EnumColumn(UserKind), nullable=False),
    Column("disabled_at", UtcColumn),
    Column("password", String(255)),
    Column("issuer", String(512)),
    Column("external_id", String(255)),
    Column("disabled_by", String(512)),
    Index("ix_users_issuer", "issuer", "external_id"),
)


groups = Table(
    "groups",
    metadata,
    *named_columns(),
    Column("description", Text),
    Column("everyone", Boolean),
    Column("issuer", String(512)),
    Column("external_id", String(255)),
)


memberships = Table(
    "memberships",
    metadata,
    id_column(),
    Column("group_id", String(36), ForeignKey("groups.id"), nullable=False),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("issuer", String(512)),
    Index("uq_memberships_group_id_user_id", "group_id", "user_id", unique=True),
)


logins = Table(
    "logins",
    metadata,
    id_column(),
    Column("issuer", String(512), nullable=False),
    Column("subject", String(512), nullable=False),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Index("uq_logins_issuer_subject", "issuer", "subject", unique=True),
)


projects = Table(
    "projects",
    metadata,
    *named_columns(),
    Column("description", Text),
    Column("fence", JsonColumn(Fence), nullable=False),
)


roles = Table(
    "roles",
    metadata,
    *named_columns(),
    Column("description", Text),
    Column("rules", RulesColumn(), nullable=False),
    Column("kubernetes", JsonColumn(KubernetesRights), nullable=False),
)


role_bindings = Table(
    "role_bindings",
    metadata,
    id_column(),
    Column("role_id", String(36), nullable=False, index=True),
    Column("subject_kind", EnumColumn(SubjectKind), nullable=False),
    Column("subject_id", String(36), nullable=False, index=True),
    Column("scope", String(64), nullable=False, index=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("expires_at", UtcColumn, index=True),
    Column("given_by", String(320), nullable=False),
    Column("reason", Text, nullable=False),
    Column("name", String(255), unique=True),
    Column("ended_at", UtcColumn),
    Column("cluster_tags", Text, nullable=False),
)


access_requests = Table(
    "access_requests",
    metadata,
    id_column(),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("role_id", String(36), nullable=False),
    Column("scope", String(64), nullable=False),
    Column("minutes", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("state", EnumColumn(AccessRequestState), nullable=False, index=True),
    Column("decided_by", String(320), nullable=False),
    Column("decided_at", UtcColumn),
    Column("binding_id", String(36)),
    Column("expires_at", UtcColumn),
)


challenges = Table(
    "challenges",
    metadata,
    id_column(),
    Column("kind", EnumColumn(ChallengeKind), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("expires_at", UtcColumn, nullable=False, index=True),
    Column("code", String(16), unique=True),
    Column("detail", JsonColumn(dict[str, str]), nullable=False),
    Column("user_id", String(36)),
    Column("taken_at", UtcColumn),
)


failures = Table(
    "failures",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("count", Integer, nullable=False),
    Column("until", UtcColumn, nullable=False, index=True),
)


trust_rules = Table(
    "trust_rules",
    metadata,
    *named_columns(),
    Column("service_account_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("issuer", String(512), nullable=False, index=True),
    Column("audience", String(512), nullable=False),
    Column("subject", String(512), nullable=False),
    Column("claims", JsonColumn(dict[str, str]), nullable=False),
    Column("minutes", Integer, nullable=False),
    Column("keys", Text),
)


tokens = Table(
    "tokens",
    metadata,
    id_column(),
    Column("kind", EnumColumn(TokenKind), nullable=False),
    Column("name", String(255), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("user_id", String(36), ForeignKey("users.id"), index=True),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), index=True),
    Column("expires_at", UtcColumn),
    Column("last_used_at", UtcColumn),
    Column("revoked_at", UtcColumn),
    Column("limits", LimitsColumn(), nullable=False),
    Column("idle_at", UtcColumn),
    Column("parent_id", String(36)),
    Column("source", String(64), nullable=False),
)

REPOSITORIES = tables(
    TableRows(UserStore, users, User, ("email", "name")),
    TableRows(TokenStore, tokens, Token, ("name",)),
    TableRows(GroupStore, groups, Group, ("name",)),
    TableRows(MembershipStore, memberships, Membership),
    TableRows(LoginStore, logins, Login),
    TableRows(ProjectStore, projects, Project, ("name",)),
    TableRows(RoleStore, roles, Role, ("name",)),
    TableRows(RoleBindingStore, role_bindings, Binding),
    TableRows(AccessRequestStore, access_requests, AccessRequest),
    TableRows(ChallengeStore, challenges, SignInChallenge),
    TableRows(SignInFailureStore, failures, SignInFailures),
    TableRows(TrustRuleStore, trust_rules, TrustRule),
)
