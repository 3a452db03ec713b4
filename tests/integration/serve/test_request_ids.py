"""The request id in an error response finds the failure in the log."""

import pytest
import structlog

from controlplane.access.operations.identity import CredentialAuthenticator
from tests.integration.serve.conftest import Running

ME = "{ me { email } }"


async def test_an_error_of_ours_bears_the_id_that_the_log_has(
    hub: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request has its own."""

    async def broken(_: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(hub.process.plane.operations[CredentialAuthenticator], "me", broken)
    with structlog.testing.capture_logs() as logs:
        first, second = await hub.refusal(ME), await hub.refusal(ME)
    ids = [error["extensions"]["requestId"] for error in (first, second)]
    assert len(set(ids)) == 2
    assert [line["request_id"] for line in logs if line["event"] == "resolver failed"] == ids
    assert "secret" not in str((first, second))


async def test_mistakes_of_the_caller_bear_no_id(hub: Running) -> None:
    error = await hub.refusal("{ clusters(first: 0) { edges { cursor } } }")
    assert error["extensions"] == {"code": "INVALID"}
