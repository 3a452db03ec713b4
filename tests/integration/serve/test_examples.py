"""The worked examples of the documentation are applied as they stand, and are then complete."""

import asyncio
from pathlib import Path

from tests.integration.serve.conftest import Running
from towline.cli.apply.manifests import read_manifests
from towline.cli.apply.plan import ManifestPlanner
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "pipelines"


async def applied(hub: Running, password: str) -> list[str]:
    """Output of `towline apply` for all of them."""

    def apply() -> list[str]:
        api = GraphQLClient(ControlPlaneTarget(hub.url, hub.token))
        planner = ManifestPlanner(api, dry_run=False, environ={"DB_PASSWORD": password})
        return [line for one in read_manifests(EXAMPLES) for line in planner.apply(one)]

    return await asyncio.to_thread(apply)


async def test_every_example_is_applied_as_it_stands(hub: Running) -> None:
    """Applied again, nothing of it has to be changed; another password begins a rotation."""
    made = await applied(hub, "canary-0e0e-example")
    assert {line[0] for line in made} <= set("+ "), made
    names = [line for line in made if line.startswith("+ Pipeline")]
    assert names == [f"+ Pipeline {one} created" for one in ("ingress", "bank", "orders", "shop")]
    again = await applied(hub, "canary-0e0e-example")
    assert {line[0] for line in again} == {"="}, [line for line in again if line[0] != "="]
    changed = await applied(hub, "canary-0e0f-example")
    lines = [line for line in changed if line[0] != "="]
    rotated = ["~ Secret wiki-db-password changed", "  version: 1 → 2"]
    assert lines == [*rotated, "~ Context wiki changed"]
