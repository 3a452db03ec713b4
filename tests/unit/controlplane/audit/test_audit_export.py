"""`GET /audit/export`: formats, filters, permissions and refusals."""

from dataclasses import dataclass, replace
from datetime import timedelta

import orjson
import pytest

from controlplane.access.http.browser import Cookies
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.audit.http import AuditExport
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.authorization import INSTALLATION, Scope
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from core.identity import TokenKind, new_token
from tests.fakes.access import FakeDeployTokens, ReadOnlyStore, bind, make_token, make_user
from tests.fakes.asgi import AsgiClient, Response, client_of
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

ADA = make_user("ada")
ENTRIES = [
    AuditEntry(START, "ada@example.org", "createCluster", AuditVerdict.ALLOWED, target="dev"),
    AuditEntry(START, "bob@example.org", "signIn", AuditVerdict.REFUSED, target="bob"),
    AuditEntry(
        START + timedelta(hours=1),
        "ada@example.org",
        "deleteCluster",
        AuditVerdict.ALLOWED,
        target="dev",
        target_id="dev",
    ),
]


@dataclass
class Export:
    """The export, for a client without a credential."""

    world: MemoryOperations
    client: AsgiClient

    async def token(self, kind: TokenKind = TokenKind.USER, scope: Scope = INSTALLATION) -> str:
        """A secret of ada, who administers a scope. It was used before: this leaves no entry."""
        token, secret = make_token(ADA, kind, last_used_at=START)
        await self.world.given(ADA, token, bind("admin", ADA, scope))
        return secret

    async def signed_in(self, scope: Scope = INSTALLATION) -> None:
        """Authenticates all further requests."""
        self.client.headers = {"authorization": f"Bearer {await self.token(scope=scope)}"}

    async def actions(self, query: str = "") -> list[str]:
        """Actions of the exported entries."""
        response = await self.client.get(f"/audit/export?{query}")
        assert response.status == 200, response.text
        return [orjson.loads(line)["action"] for line in response.body.splitlines()]


@pytest.fixture
async def export() -> Export:
    world = operations_over_memory()
    await world.given(make_cluster("dev"), make_cluster("prod"))
    audit_log = AuditLogOperations(world.context)
    for entry in ENTRIES:
        await audit_log.append([entry])
    identity = CredentialAuthenticator(world.context, FakeDeployTokens({}))
    route = AuditExport(audit_log, identity, Cookies()).route
    return Export(world, client_of([route]))


def refusal(response: Response) -> tuple[int, str]:
    """Status and code of an error, which is never a file."""
    assert "content-disposition" not in response.headers
    return response.status, response.json()["code"]


async def test_entries_are_saved_as_json_lines(export: Export) -> None:
    await export.signed_in()
    response = await export.client.get("/audit/export")
    lines = [orjson.loads(line) for line in response.body.splitlines()]
    assert [(line["action"], line["target"], line["verdict"]) for line in lines] == [
        ("createCluster", "dev", "allowed"),
        ("signIn", "bob", "refused"),
        ("deleteCluster", "dev", "allowed"),
    ]
    assert response.headers["content-type"] == "application/jsonl"
    assert response.headers["content-disposition"] == 'attachment; filename="audit.jsonl"'
    assert response.headers["cache-control"] == "no-store"


async def test_entries_are_saved_for_security_tools(export: Export) -> None:
    await export.signed_in()
    response = await export.client.get("/audit/export?format=cef&verdict=refused")
    (line,) = response.text.splitlines()
    assert line.startswith("CEF:0|Towline|") and "|signIn|" in line
    assert response.headers["content-disposition"] == 'attachment; filename="audit.cef"'
    assert response.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("kind=sign-in", ["signIn"]),
        ("verdict=allowed", ["createCluster", "deleteCluster"]),
        ("actor=ada@example.org&action=delete*", ["deleteCluster"]),
        ("action=createCluster", ["createCluster"]),
        ("action=deletion*", []),
        ("action=createCluste", []),
        ("target=dev", ["createCluster", "deleteCluster"]),
        ("cluster=dev", ["deleteCluster"]),
        ("q=BOB", ["signIn"]),
        ("since=2026-01-01T00:30:00Z", ["deleteCluster"]),
        ("until=2026-01-01T01:30:00%2B01:00", ["createCluster", "signIn"]),
        ("since=2026-01-01T01:00:00Z&until=2026-01-01T01:00:00Z", []),
        ("since=&format=&kind=", ["createCluster", "signIn", "deleteCluster"]),
    ],
)
async def test_an_export_is_filtered(export: Export, query: str, found: list[str]) -> None:
    await export.signed_in()
    assert await export.actions(query) == found


async def test_an_export_has_more_than_one_page(export: Export) -> None:
    await export.signed_in()
    many = [replace(ENTRIES[0], target=f"c{number}") for number in range(1_001)]
    await AuditLogOperations(export.world.context).append(many)
    assert len(await export.actions("action=createCluster")) == 1_002


@pytest.mark.parametrize(
    "query",
    [
        "colour=red",
        "format=xml",
        "kind=changes",
        "verdict=denied",
        "since=yesterday",
        "since=2026-01-01T00:00:00",
        "until=0001-01-01T00:00:00%2B14:00",
        f"q={'a' * 321}",
        f"actor={'a' * 321}",
        "q=a%00b",
    ],
)
async def test_an_invalid_parameter_is_refused_by_name(export: Export, query: str) -> None:
    await export.signed_in()
    response = await export.client.get(f"/audit/export?{query}")
    assert refusal(response) == (400, "INVALID")
    assert response.json()["error"].startswith(query.partition("=")[0])


async def test_a_parameter_has_at_most_320_characters(export: Export) -> None:
    await export.signed_in()
    assert await export.actions(f"actor={'a' * 320}") == []


async def test_an_export_needs_a_credential(export: Export) -> None:
    for authorization, reason in (
        ("", "sign in first"),
        ("Bearer ", "sign in first"),
        (f"Bearer {new_token(TokenKind.USER)}", "invalid token"),
    ):
        response = await export.client.get("/audit/export", authorization=authorization)
        assert refusal(response) == (401, "UNAUTHENTICATED")
        assert response.json()["error"].startswith(reason)


async def test_a_token_counts_beside_the_session_of_a_browser(export: Export) -> None:
    """A program may share its cookies; they are no proof of a page of ours, and none is needed."""
    await export.signed_in()
    export.client.cookies["towline_session"] = new_token(TokenKind.SESSION)
    assert (await export.client.get("/audit/export", sec_fetch_site="cross-site")).status == 200


async def test_an_outage_of_the_store_is_no_wrong_credential(export: Export) -> None:
    context = replace(export.world.context, store=ReadOnlyStore(export.world.store))
    identity = CredentialAuthenticator(context, FakeDeployTokens({}))
    route = AuditExport(AuditLogOperations(context), identity, Cookies()).route
    ticket = await export.token(TokenKind.TICKET)
    response = await client_of([route]).get("/audit/export", authorization=f"Bearer {ticket}")
    assert refusal(response) == (503, "UNAVAILABLE")


async def test_an_export_needs_read_access_to_the_audit_log(export: Export) -> None:
    token, secret = make_token(ADA)
    await export.world.given(ADA, token, bind("viewer", ADA))
    response = await export.client.get("/audit/export", authorization=f"Bearer {secret}")
    assert refusal(response) == (403, "FORBIDDEN")


async def test_an_export_has_only_entries_of_clusters_whose_log_the_caller_reads(
    export: Export,
) -> None:
    await export.signed_in(Scope("cluster:dev"))
    assert await export.actions() == ["deleteCluster"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"x_towline_csrf": "1"}, 200),
        ({}, 401),
        ({"sec_fetch_site": "none"}, 401),
        ({"sec_fetch_site": "cross-site"}, 401),
        ({"sec_fetch_site": "cross-site", "x_towline_csrf": "1"}, 403),
        ({"origin": "https://evil.example.org", "x_towline_csrf": "1"}, 403),
    ],
)
async def test_a_session_exports_by_a_link_of_our_own_page(
    export: Export, headers: dict[str, str], status: int
) -> None:
    export.client.cookies["towline_session"] = await export.token(TokenKind.SESSION)
    response = await export.client.get("/audit/export", **headers)
    assert response.status == status
    assert ("content-disposition" in response.headers) is (status == 200)


async def test_a_session_is_no_token(export: Export) -> None:
    """A script that reads a cookie gains nothing by sending it elsewhere."""
    secret = await export.token(TokenKind.SESSION)
    response = await export.client.get("/audit/export", authorization=f"Bearer {secret}")
    assert refusal(response) == (401, "UNAUTHENTICATED")
    assert "in its cookie" in response.json()["error"]
