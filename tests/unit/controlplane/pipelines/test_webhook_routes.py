"""Webhooks over HTTP: registries announce versions, CI systems answer gates."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

import orjson
import pytest

from controlplane.pipelines.http import MAX_BYTES, WebhookRoutes
from controlplane.platform.webhook_signatures import new_secret, signature
from core.errors import Conflict, Forbidden, NotFound, TowlineError, Unavailable
from tests.fakes.asgi import AsgiClient, Response, client_of
from tests.fakes.clock import START, FakeClock

SECRET = new_secret(b"s" * 32)
ANSWER = orjson.dumps({"release": "r7-abc", "passed": True, "reason": "green"})


class Operations:
    """Triggers and decisions of an installation with one trigger and one gate, both `known`."""

    def __init__(self) -> None:
        self.hints: list[str] = []
        self.answers: list[tuple[Any, ...]] = []
        self.refusal: TowlineError | None = None
        self.is_away = False

    async def webhook_secret(self, id: str) -> str | None:
        if self.is_away:
            raise Unavailable("the store does not answer")
        return SECRET if id == "known" else None

    gate_secret = webhook_secret

    async def schedule_poll_soon(self, id: str) -> None:
        self.hints.append(id)

    async def answer_signed(self, *answer: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.answers.append(answer)


class Webhooks:
    """The routes, and a CI system that knows the secret of the gate."""

    def __init__(self) -> None:
        self.clock, self.operations = FakeClock(), Operations()
        parts = cast(Any, self.operations)
        self.client: AsgiClient = client_of(WebhookRoutes(parts, parts, self.clock).routes)

    async def answer(
        self,
        body: bytes = ANSWER,
        gate: str = "known",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Answers a gate; `headers` replace those of the right signature."""
        signed = {
            name.replace("-", "_"): value
            for name, value in signature(SECRET, "msg-1", START, body).items()
        }
        return await self.client.send(
            "POST", f"/webhooks/gates/{gate}", body, {**signed, **(headers or {})}
        )

    async def hint(
        self, path: str, body: bytes = b"{}", headers: Mapping[str, str] | None = None
    ) -> Response:
        return await self.client.send("POST", f"/webhooks/registry/{path}", body, headers)


@pytest.fixture
def webhooks() -> Webhooks:
    return Webhooks()


async def test_a_signed_answer_decides_at_its_gate(webhooks: Webhooks) -> None:
    assert (await webhooks.answer()).status == 204
    assert webhooks.operations.answers == [("known", "r7-abc", True, "green", "msg-1")]


@pytest.mark.parametrize(
    ("gate", "headers"),
    [
        ("unknown", {}),
        ("known", {"webhook_signature": "v1,AAAA"}),
        ("known", {"webhook_signature": ""}),
        ("known", {"webhook_id": "msg-2"}),
        ("known", {"webhook_id": ""}),
        ("known", {"webhook_timestamp": "now"}),
        ("known", {"webhook_timestamp": str(int(START.timestamp()) - 301)}),
        ("known", {"webhook_timestamp": "1" * 13}),
    ],
)
async def test_any_other_answer_has_the_same_refusal(
    webhooks: Webhooks, gate: str, headers: dict[str, str]
) -> None:
    """It tells nobody which gates exist."""
    response = await webhooks.answer(gate=gate, headers=headers)
    assert (response.status, response.text) == (401, "signature refused")
    assert webhooks.operations.answers == []


async def test_a_signature_is_valid_for_five_minutes(webhooks: Webhooks) -> None:
    await webhooks.clock.advance(300)
    assert (await webhooks.answer()).status == 204
    await webhooks.clock.advance(1)
    assert (await webhooks.answer()).status == 401


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"release": "r7-abc"}',
        b'{"release": "r7-abc", "passed": "yes"}',
        b'{"release": 7, "passed": true}',
        b'{"release": "r7-abc", "passed": true, "reason": 5}',
    ],
)
async def test_an_unreadable_answer_is_refused_with_an_example(
    webhooks: Webhooks, body: bytes
) -> None:
    response = await webhooks.answer(body)
    assert response.status == 400 and '"passed": true' in response.text


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("no such release"), 404),
        (Conflict("the release has left"), 409),
        (Forbidden("disabled"), 403),
        (Unavailable("the store does not answer"), 503),
    ],
)
async def test_a_refused_decision_tells_the_ci_system_whether_to_retry(
    webhooks: Webhooks, error: TowlineError, status: int
) -> None:
    webhooks.operations.refusal = error
    response = await webhooks.answer()
    assert (response.status, response.json()["error"]) == (status, error.message)


async def test_a_webhook_during_an_outage_is_to_be_sent_again(webhooks: Webhooks) -> None:
    webhooks.operations.is_away = True
    for response in (await webhooks.answer(), await webhooks.hint("plain/known")):
        assert (response.status, response.json()["code"]) == (503, "UNAVAILABLE")


@pytest.mark.parametrize(
    ("provider", "headers"),
    [
        ("github", {"x_hub_signature_256": "sha256={digest}"}),
        ("plain", {"x_hub_signature_256": "{digest}"}),
        ("harbor", {"authorization": SECRET}),
        (f"dockerhub/known?token={quote(SECRET)}", {}),
    ],
)
async def test_a_registry_proves_the_secret_in_its_own_way(
    webhooks: Webhooks, provider: str, headers: dict[str, str]
) -> None:
    digest = hmac.new(SECRET.encode(), b"{}", hashlib.sha256).hexdigest()
    proof = {name: value.format(digest=digest) for name, value in headers.items()}
    path = provider if "/" in provider else f"{provider}/known"
    assert (await webhooks.hint(path, headers=proof)).status == 202
    assert webhooks.operations.hints == ["known"]
    refused = [
        await webhooks.hint(path.partition("?")[0]),
        await webhooks.hint(path.replace("known", "unknown"), headers=proof),
    ]
    assert [response.status for response in refused] == [401, 401]
    assert webhooks.operations.hints == ["known"]


@pytest.mark.parametrize("provider", ["github", "plain", "harbor", "dockerhub"])
async def test_nothing_proves_a_missing_secret(webhooks: Webhooks, provider: str) -> None:
    """Not even an empty proof, or one with an empty key."""
    digest = hmac.new(b"", b"{}", hashlib.sha256).hexdigest()
    for headers in ({}, {"authorization": "", "x_hub_signature_256": f"sha256={digest}"}):
        assert (await webhooks.hint(f"{provider}/unknown?token=", headers=headers)).status == 401
    assert webhooks.operations.hints == []


@pytest.mark.parametrize("id", ["", "i" * 257])
async def test_an_answer_needs_an_id_by_which_a_replay_is_found(
    webhooks: Webhooks, id: str
) -> None:
    signed = signature(SECRET, id, START, ANSWER)
    headers = {name.replace("-", "_"): value for name, value in signed.items()}
    assert (await webhooks.answer(headers=headers)).status == 401


async def test_an_unknown_provider_is_not_found(webhooks: Webhooks) -> None:
    assert (await webhooks.hint("quay/known")).status == 404


async def test_a_body_has_a_limit(webhooks: Webhooks) -> None:
    for response in (
        await webhooks.answer(b"x" * (MAX_BYTES + 1)),
        await webhooks.hint("plain/known", b"x" * (MAX_BYTES + 1)),
    ):
        assert (response.status, response.text) == (413, f"the body exceeds {MAX_BYTES} bytes")
