"""A caller above its rate limit is refused, alone."""

from pathlib import Path

from tests.integration.serve.conftest import running
from tests.integration.serve.waiting import until

QUESTION = "{ me { email } }"


async def test_requests_beyond_the_rate_get_the_limit_error(tmp_path: Path) -> None:
    """The second request of a window that has one; strangers are counted by themselves."""
    async with running(tmp_path / "data", api={"requests_per_minute": 6}) as hub:

        async def code(token: str | None) -> str:
            answer = await hub.post(QUESTION, token=token)
            (error,) = answer.get("errors") or [{"extensions": {"code": "none"}}]
            return error["extensions"]["code"]

        assert await code(None) == "none"
        assert await until(lambda: code(None), lambda one: one != "none") == "LIMIT"
        assert await code("twu_nobody") == "UNAUTHENTICATED"
        assert (await hub.post(QUESTION, token="twu_nobody"))["errors"]


async def test_a_websocket_counts_against_the_same_limit(tmp_path: Path) -> None:
    """Queries, mutations and subscriptions; the connection stays."""
    mutation = 'mutation { createCluster(attributes: {name: "x"}) { id } }'
    async with running(tmp_path / "data", api={"requests_per_minute": 6}) as hub:
        url = f"{hub.url}/gql"
        async with hub.http.ws_connect(url, protocols=["graphql-transport-ws"]) as ws:
            await ws.send_json({"type": "connection_init", "payload": {"token": hub.token}})
            assert (await ws.receive_json())["type"] == "connection_ack"
            answers = []
            for number in range(20):
                query = mutation if number % 2 else "{ me { email } }"
                payload = {"query": query}
                await ws.send_json({"id": str(number), "type": "subscribe", "payload": payload})
                while (answer := await ws.receive_json())["type"] == "next":
                    pass
                answers.append(answer)
    refused = [answer for answer in answers if answer["type"] == "error"]
    assert len(refused) >= 15
    assert {answer["payload"][0]["extensions"]["code"] for answer in refused} == {"LIMIT"}
