"""Errors of the API: their codes, what they tell, and refused mutations in the audit log."""

from dataclasses import replace
from typing import Any

import pytest
from strawberry.schema.exceptions import InvalidOperationTypeError
from structlog.testing import capture_logs

from controlplane.api.schema import schema
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.authorization import ANONYMOUS, Actor
from controlplane.clusters.operations.clusters import Clusters
from controlplane.platform.git_ports import ManifestSource
from controlplane.platform.graphql.context import ApiBackend, Context
from core.spec.statements.signing_keys import SigningIdentity
from tests.fakes.actors import ADMIN, NOBODY, VIEWER
from tests.fakes.audit_rows import audit_rows
from tests.fakes.manifests import FakeManifests
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

DELETE = 'mutation { deleteCluster(id: "dev") { id } }'
SECRET = "postgresql://towline:hunter2@db"


class Nobody:
    """Authenticates nobody: tests say who asks."""

    async def authenticate(self, token: str, source: str = "") -> Actor:
        raise AssertionError("nobody signs in")

    async def actor_of(self, user_id: str, token_id: str | None) -> Actor:
        raise AssertionError("nobody signs in")


class BrokenManifests(FakeManifests):
    """Fails to tell the signing key."""

    async def signing_identity(self) -> SigningIdentity:
        raise RuntimeError(f"cannot connect to {SECRET}")


class Api:
    """The schema, over an installation with one cluster and a broken signing key."""

    def __init__(self, *, introspection: bool = True) -> None:
        self.world: MemoryOperations = operations_over_memory()
        self.audit_log = AuditLogOperations(self.world.context)
        operations: dict[type, object] = {
            Clusters: Clusters(self.world.context),
            AuditLogOperations: self.audit_log,
            ManifestSource: BrokenManifests(),
        }
        backend = ApiBackend(operations, Nobody(), 0)
        self.backend = replace(backend, introspection=introspection)

    async def error(self, query: str, actor: Actor = ADMIN, **variables: Any) -> dict[str, Any]:
        """The only error of a request."""
        context = Context(self.backend, caller=actor, request_id="request-1")
        result = await schema.execute(query, variables, context)
        (error,) = list(result.errors or ())
        return {"message": error.message, **(error.extensions or {})}

    async def refusals(self) -> list[tuple[str, str, str]]:
        """Actor, action and target of refused calls in the audit log."""
        await self.audit_log.flush()
        async with self.world.store.read() as tx:
            rows = await audit_rows(tx)
        return [(row.actor, row.action, row.target_id) for row in rows]


@pytest.fixture
async def api() -> Api:
    api = Api()
    await api.world.given(make_cluster("dev"))
    return api


async def test_an_internal_error_tells_only_where_to_look(api: Api) -> None:
    error = await api.error("{ installation { signingKey } }")
    assert (error["code"], error["requestId"]) == ("INTERNAL", "request-1")
    assert SECRET not in str(error) and "log of the control plane" in error["message"]


@pytest.mark.parametrize(
    ("query", "actor", "code"),
    [
        ('{ cluster(id: "none") { id } }', ADMIN, "NOT_FOUND"),
        ('{ cluster(id: "none") { id } }', NOBODY, "FORBIDDEN"),
        ("{ clusters(first: 0) { edges { node { id } } } }", ADMIN, "INVALID"),
        ('{ cluster(handle: "a\\u0000b") { id } }', ADMIN, "INVALID"),
        ("{ nonsense }", ADMIN, "INVALID"),
        ("{", ADMIN, "INVALID"),
        (DELETE, VIEWER, "FORBIDDEN"),
    ],
)
async def test_an_error_has_the_code_of_its_cause(
    api: Api, query: str, actor: Actor, code: str
) -> None:
    """NOT_FOUND is only for callers who may read some cluster."""
    assert (await api.error(query, actor))["code"] == code


async def test_an_unknown_value_of_an_enum_names_the_known_ones(api: Api) -> None:
    error = await api.error("{ auditLogs(filter: {kind: CHANGED}) { edges { node { id } } } }")
    assert error["message"].endswith("use CHANGE, SIGN_IN, REQUEST, AGENT")


async def test_without_introspection_no_error_suggests_names() -> None:
    for introspection in (True, False):
        api = Api(introspection=introspection)
        error = await api.error("{ clustres { id } }")
        assert ("Did you mean" in error["message"]) is introspection
    error = await api.error("{ __schema { types { name } } }")
    assert error["code"] == "FORBIDDEN" and "schema.graphql" in error["message"]


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        (DELETE, {}),
        ("mutation ($of: ID!) { deleteCluster(id: $of) { id } }", {"of": "dev"}),
        ('mutation { x: deleteCluster(id: "dev") { id } }', {}),
    ],
)
async def test_a_refused_mutation_is_audited(
    api: Api, query: str, variables: dict[str, Any]
) -> None:
    await api.error(query, NOBODY, **variables)
    assert await api.refusals() == [(NOBODY.email, "deleteCluster", "dev")]


@pytest.mark.parametrize(
    ("query", "actor"),
    [
        ('{ cluster(id: "dev") { id } }', NOBODY),
        ("mutation { deleteCluster(id: 5.5) { id } }", NOBODY),
        ("mutation { nonsense }", NOBODY),
    ],
)
async def test_a_refused_query_or_an_invalid_mutation_is_not_audited(
    api: Api, query: str, actor: Actor
) -> None:
    await api.error(query, actor)
    assert await api.refusals() == []


PAGES = " ".join(f"a{n}: clusters(first: 1000) {{ edges {{ node {{ id }} }} }}" for n in range(20))


@pytest.mark.parametrize(
    ("query", "variables", "code", "reason"),
    [
        (
            "{ " + "clusters { edges { cursor } } " * 200 + "}",
            {},
            "INVALID",
            "more than 500 fields",
        ),
        (f"{{ {PAGES} }}", {}, "LIMIT", "the cost of the query"),
        (
            "query ($handle: String) { cluster(handle: $handle) { id } }",
            {"handle": "a\0b"},
            "INVALID",
            "NUL",
        ),
    ],
)
async def test_documents_and_variables_have_limits(
    api: Api, query: str, variables: dict[str, Any], code: str, reason: str
) -> None:
    error = await api.error(query, **variables)
    assert (error["code"], reason in error["message"]) == (code, True)
    signed_out = await api.error(query, ANONYMOUS, **variables)
    assert signed_out["code"] == "UNAUTHENTICATED"


async def test_a_document_has_at_most_5000_tokens(api: Api) -> None:
    error = await api.error("{ " + "__typename " * 5_000 + "}")
    assert (error["code"], "5000 tokens" in error["message"]) == ("INVALID", True)


async def test_a_conflict_has_the_state_of_the_other_row(api: Api) -> None:
    create = 'mutation { createCluster(attributes: {name: "x", handle: "dev"}) { id } }'
    error = await api.error(create)
    assert (error["code"], error["current"]["handle"]) == ("CONFLICT", "dev")
    assert "current" not in await api.error(DELETE, VIEWER)


async def test_an_error_names_its_place_in_the_document(api: Api) -> None:
    for query, line in (("{\n clusters(", 2), ("{\n\n nonsense }", 3)):
        result = await schema.execute(query, None, Context(api.backend, caller=ADMIN))
        (error,) = list(result.errors or ())
        assert [place.line for place in error.locations or ()] == [line]


async def test_only_internal_errors_are_logged(api: Api) -> None:
    with capture_logs() as logs:
        await api.error('{ cluster(id: "none") { id } }')
        await api.error("{ nonsense }")
        assert logs == []
        await api.error("{ installation { signingKey } }")
    (entry,) = logs
    assert (entry["event"], entry["request_id"]) == ("resolver failed", "request-1")
    assert SECRET in str(entry["exc_info"])


async def test_members_read_the_schema_with_its_descriptions(api: Api) -> None:
    query = '{ __type(name: "Cluster") { description } }'
    result = await schema.execute(query, None, Context(api.backend, caller=VIEWER))
    assert result.data is not None and result.data["__type"]["description"]
    assert (await api.error(query, ANONYMOUS))["code"] == "UNAUTHENTICATED"


async def test_a_subscription_is_no_query(api: Api) -> None:
    with pytest.raises(InvalidOperationTypeError):
        await api.error("subscription { clusterDelta { id } }")
