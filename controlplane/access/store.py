"""Tables of users, tokens, roles and sign-in."""

from sqlalchemy import Column, Index

from controlplane.access.model.bindings import AccessRequest, Binding, Project
from controlplane.access.model.sign_in import SignInChallenge, SignInFailures
from controlplane.access.model.trust_rules import TrustRule
from controlplane.access.model.users import Group, Login, Membership, Token, User
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
from controlplane.authorization import Role
from controlplane.platform.store.columns import UtcColumn
from controlplane.platform.store.rights import LimitsColumn, RulesColumn
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables

users = row_table(
    "users",
    User,
    Index("ix_users_issuer", "issuer", "external_id"),
    lengths={
        "email": 320,
        "name": 255,
        "password": 255,
        "issuer": 512,
        "external_id": 255,
        "disabled_by": 512,
    },
    unique={"email"},
)


groups = row_table("groups", Group, lengths={"issuer": 512, "external_id": 255})


memberships = row_table(
    "memberships",
    Membership,
    Index("uq_memberships_group_id_user_id", "group_id", "user_id", unique=True),
    lengths={"issuer": 512},
    indexed={"user_id"},
    references={"group_id": "groups.id", "user_id": "users.id"},
)


logins = row_table(
    "logins",
    Login,
    Index("uq_logins_issuer_subject", "issuer", "subject", unique=True),
    lengths={"issuer": 512, "subject": 512},
    indexed={"user_id"},
    references={"user_id": "users.id"},
)


projects = row_table("projects", Project)


roles = row_table(
    "roles",
    Role,
    Column("inserted_at", UtcColumn, nullable=False),
    Column("updated_at", UtcColumn, nullable=False),
    Column("rules", RulesColumn(), nullable=False),
    lengths={"name": 255},
    unique={"name"},
)


role_bindings = row_table(
    "role_bindings",
    Binding,
    lengths={"scope": 64, "given_by": 320, "name": 255},
    indexed={"role_id", "subject_id", "scope", "expires_at"},
    unique={"name"},
)


access_requests = row_table(
    "access_requests",
    AccessRequest,
    lengths={"scope": 64, "decided_by": 320},
    indexed={"user_id", "state"},
    references={"user_id": "users.id"},
)


challenges = row_table(
    "challenges",
    SignInChallenge,
    lengths={"hash": 64, "code": 16},
    indexed={"expires_at"},
    unique={"hash", "code"},
)


failures = row_table("failures", SignInFailures, lengths={"id": 64}, indexed={"until"})


trust_rules = row_table(
    "trust_rules",
    TrustRule,
    lengths={"issuer": 512, "audience": 512, "subject": 512},
    indexed={"service_account_id", "issuer"},
    references={"service_account_id": "users.id"},
)


tokens = row_table(
    "tokens",
    Token,
    Column("limits", LimitsColumn(), nullable=False),
    lengths={"name": 255, "hash": 64, "source": 64},
    indexed={"user_id", "cluster_id"},
    unique={"hash"},
    references={"user_id": "users.id", "cluster_id": "clusters.id"},
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
