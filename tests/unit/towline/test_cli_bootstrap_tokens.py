"""`towline clusters bootstrap-tokens`: the request of a new token, and the token to revoke."""

import pytest
from typer.testing import CliRunner, Result

from core.errors import Invalid, NotFound
from tests.fakes.api import FakeApi
from towline.cli.clusters import bootstrap_tokens
from towline.cli.clusters import generated as cluster_api
from towline.cli.program import app

EDGE = {
    "id": "b1",
    "name": "edge",
    "uses": 0,
    "maxUses": 2,
    "expiresAt": "2026-02-01T00:00:00Z",
    "lastUsedAt": None,
    "revokedAt": None,
}
CREATED = {"token": "twb_secret", "bootstrapToken": EDGE}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Three tokens, two of which have the same name."""
    tokens = [EDGE, {**EDGE, "id": "b2", "name": "twin"}, {**EDGE, "id": "b3", "name": "twin"}]
    made = FakeApi(
        {
            cluster_api.BOOTSTRAP_TOKENS: {"bootstrapTokens": tokens},
            cluster_api.CREATE_BOOTSTRAP_TOKEN: {"createBootstrapToken": CREATED},
            cluster_api.REVOKE_BOOTSTRAP_TOKEN: {"revokeBootstrapToken": EDGE},
        }
    )
    monkeypatch.setattr(bootstrap_tokens, "connect", lambda context: made)
    return made


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["clusters", "bootstrap-tokens", *words])


@pytest.mark.parametrize(
    ("flags", "lifetime"),
    [((), 86_400), (("--expires", "30m"), 1_800), (("--expires", "7d"), 604_800)],
)
def test_a_new_token_has_its_lifetime_in_seconds(
    api: FakeApi, flags: tuple[str, ...], lifetime: int
) -> None:
    """Only the token is on standard output, as scripts read it."""
    said = run("create", "edge", "--uses", "2", "--tag", "tier=edge", *flags)
    assert (said.stdout, said.stderr) == (
        "twb_secret\n",
        "edge: 2 clusters until 2026-02-01T00:00:00Z\n",
    )
    (sent,) = api.sent(cluster_api.CREATE_BOOTSTRAP_TOKEN)
    assert sent["attributes"] == {
        "name": "edge",
        "expiresInSeconds": lifetime,
        "maxUses": 2,
        "tags": [{"name": "tier", "value": "edge"}],
        "adopts": False,
        "projectId": None,
    }


@pytest.mark.parametrize("lifetime", ["7", "d", "soon", "-1d", "1.5h"])
def test_a_lifetime_that_is_no_duration_is_refused(api: FakeApi, lifetime: str) -> None:
    refused = run("create", "edge", "--expires", lifetime).exception
    assert isinstance(refused, Invalid) and refused.message.startswith("--expires: ")
    assert api.sent(cluster_api.CREATE_BOOTSTRAP_TOKEN) == []


@pytest.mark.parametrize(("token", "id"), [("edge", "b1"), ("b3", "b3")])
def test_a_token_is_revoked_by_name_or_id(api: FakeApi, token: str, id: str) -> None:
    assert run("revoke", token, "--yes").exit_code == 0
    assert api.sent(cluster_api.REVOKE_BOOTSTRAP_TOKEN) == [{"id": id}]


def test_a_token_is_not_revoked_unasked(api: FakeApi) -> None:
    refused = run("revoke", "edge").exception
    assert isinstance(refused, Invalid) and "use --yes" in refused.message
    assert api.sent(cluster_api.REVOKE_BOOTSTRAP_TOKEN) == []


@pytest.mark.parametrize(("token", "error"), [("other", NotFound), ("twin", Invalid)])
def test_a_name_of_none_or_of_several_tokens_revokes_nothing(
    api: FakeApi, token: str, error: type[Exception]
) -> None:
    assert isinstance(run("revoke", token, "--yes").exception, error)
    assert api.sent(cluster_api.REVOKE_BOOTSTRAP_TOKEN) == []
