"""The worked examples of the documentation are applied as they stand, and are then complete."""

import asyncio
from pathlib import Path

from tests.integration.serve.conftest import Running
from towline.cli.manifests import generated as operations
from towline.cli.manifests.manifests import read_sources
from towline.cli.manifests.values import fill_secret_values
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "pipelines"


async def applied(hub: Running, password: str) -> list[str]:
    """Effects of `towline apply` for all of them."""

    def apply() -> list[str]:
        api = GraphQLClient(ControlPlaneTarget(hub.url, hub.token))
        sources = fill_secret_values(api, read_sources([EXAMPLES]), read=lambda *_: password)
        plan = operations.apply_manifests(api, sources)
        assert plan["problems"] == []
        return [f"{item['action']} {item['kind']} {item['name']}" for item in plan["items"]]

    return await asyncio.to_thread(apply)


async def test_every_example_is_applied_as_it_stands(hub: Running) -> None:
    """Applied again, nothing of it has to be changed; another password begins a rotation."""
    made = await applied(hub, "canary-0e0e-example")
    assert {line.split()[0] for line in made} == {"CREATE"}
    names = sorted(line for line in made if line.startswith("CREATE Pipeline"))
    assert names == [f"CREATE Pipeline {name}" for name in ("bank", "ingress", "orders", "shop")]
    again = await applied(hub, "canary-0e0e-example")
    assert {line.split()[0] for line in again} == {"UNCHANGED"}
    changed = await applied(hub, "canary-0e0f-example")
    assert sorted(line for line in changed if not line.startswith("UNCHANGED")) == [
        "UPDATE Context wiki",
        "UPDATE Secret wiki-db-password",
    ]
    secret = await hub.ask(
        'query { secret(name: "wiki-db-password") { currentVersion newestVersion } }'
    )
    assert secret["secret"] == {"currentVersion": 1, "newestVersion": 2}
