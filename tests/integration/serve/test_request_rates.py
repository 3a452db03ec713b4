"""Who asks more often than they may is sent away, alone."""

from pathlib import Path

from tests.integration.serve.conftest import running
from tests.integration.serve.waiting import until

QUESTION = "{ me { email } }"


async def test_who_asks_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
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
