"""Requests made to hang, to flood or to surprise: each gets a sentence, and soon."""

import asyncio
from io import BytesIO
from typing import Any

import orjson
import pytest

from controlplane.platform.graphql.limits import MAX_VALUES
from tests.integration.serve.conftest import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")
GENEROUS = 20.0
ME = "{ me { email } }"
CREATE = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id } }"
DOUBLING = (
    "query q { ...f0 } "
    + " ".join(f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }}" for n in range(40))
    + " fragment f40 on Query { me { email } }"
)
# As many fragments as there may be, each spread as often as the tokens allow.
WIDE = "query q { " + "...f " * 2_000 + "} fragment f on Query { " + "me { email } " * 150 + "} "


@pytest.fixture
def hub(hub_of_module: Running) -> Running:
    return hub_of_module


def code(error: dict[str, Any]) -> str:
    return error["extensions"]["code"]


@pytest.mark.parametrize("document", [DOUBLING, WIDE], ids=["doubling", "wide"])
async def test_documents_that_multiply_are_refused(hub: Running, document: str) -> None:
    """A member gets the reason; a stranger has to sign in. Others are served at once."""
    async with asyncio.timeout(GENEROUS):
        error = await hub.refusal(document)
        assert (code(error), "fields" in error["message"]) == ("INVALID", True)
        (refused,) = (await hub.post(document, token=""))["errors"]
        assert code(refused) == "UNAUTHENTICATED"
        assert (await hub.ask(ME))["me"] == {"email": "admin"}


@pytest.mark.parametrize("document", ["{ absent }", "{ me { email } } fragment x on Nothing { a }"])
async def test_strangers_are_refused_before_validation(hub: Running, document: str) -> None:
    """Their response does not even show that a document does not fit the schema."""
    answer = await hub.post(document, token="")
    assert [code(error) for error in answer["errors"]] == ["UNAUTHENTICATED"]
    known = await hub.post(document)
    assert {code(error) for error in known["errors"]} == {"INVALID"}


async def test_long_lists_are_refused_before_they_are_read(hub: Running) -> None:
    tags = [{"name": "a", "value": "b"}] * MAX_VALUES
    async with asyncio.timeout(GENEROUS):
        error = await hub.refusal(CREATE, a={"name": "x", "tags": tags})
    assert code(error) == "INVALID"
    assert f"a: more than {MAX_VALUES:,} values" in error["message"]


async def test_a_request_of_more_than_a_mebibyte_is_refused(hub: Running) -> None:
    body = orjson.dumps({"query": ME, "variables": {"x": "y" * (1 << 20)}})
    head = {"content-type": "application/json", "authorization": f"Bearer {hub.token}"}
    async with hub.http.post(f"{hub.url}/gql", data=BytesIO(body), headers=head) as answer:
        assert answer.status == 413


@pytest.mark.parametrize(
    ("document", "variables"),
    [
        (CREATE, {"a": {"name": "x", "metadata": '{"a":' * 900 + "1" + "}" * 900}}),
        (CREATE, {"a": {"name": "x", "metadata": '{"a": "\\u0000"}'}}),
        (CREATE, {"a": {"name": "x", "metadata": '{"a": "\\ud800"}'}}),
        (CREATE, {"a": {"name": "x", "metadata": "[" * 5_000}}),
        (CREATE, {"a": {"name": "x\0"}}),
        (CREATE, {"a": {"name": "x\u202ey"}}),
        ('{ cluster(id: "\\u0000") { id } }', {}),
        ('{ cluster(handle: """\0""") { id } }', {}),
        ('{ cluster(id: "\\ud800") { id } }', {}),
        ("query ($id: ID!) { cluster(id: $id) { id } }", {"id": "\0"}),
        ('{ ledger(after: "' + "9" * 40 + '") { edges { cursor } } }', {}),
        ('{ ledger(after: "' + "9" * 19 + '") { edges { cursor } } }', {}),
        ('{ auditLogs(after: "' + "9" * 40 + '") { edges { cursor } } }', {}),
        ('{ clusters(after: "' + "x" * 70 + '") { edges { cursor } } }', {}),
        ("query ($q: String) { clusters(q: $q) { edges { cursor } } }", {"q": "x" * 201}),
        (
            "mutation { createAccessToken(attributes: "
            '{name: "x", expiresInDays: 2147483647}) { id } }',
            {},
        ),
        (
            "mutation { createAccessToken(attributes: "
            '{name: "x", expiresInDays: -2147483648}) { id } }',
            {},
        ),
    ],
)
async def test_values_that_cannot_be_are_the_callers_mistake(
    hub: Running, document: str, variables: dict[str, Any]
) -> None:
    """Never an error of ours, and never one of the store's."""
    error = await hub.refusal(document, **variables)
    assert code(error) == "INVALID", error
    assert error["message"]


async def test_lone_surrogates_in_a_body_are_no_error_of_ours(hub: Running) -> None:
    """JSON that escapes half a character, in the document and in a variable."""
    for body in (
        b'{"query": "{ cluster(id: \\"\\\\ud800\\") { id } }"}',
        b'{"query": "{ cluster(id: \\"\\ud800\\") { id } }"}',
        b'{"query": "query ($i: ID!) { cluster(id: $i) { id } }", "variables": {"i": "\\ud800"}}',
        b'{"query": "{ cluster(id: \\"\xed\xa0\x80\\") { id } }"}',
    ):
        head = {"content-type": "application/json", "authorization": f"Bearer {hub.token}"}
        async with hub.http.post(f"{hub.url}/gql", data=body, headers=head) as answer:
            said = await answer.read()
            assert answer.status == 400 or b"INVALID" in said, (body, said)
