"""A replica of this version goes on while a newer one has expanded the store beneath it."""

import sqlite3
from pathlib import Path

from tests import migrated
from tests.integration.serve.conftest import running
from towline.demo.gitserver import GitServer

EXPANSION = (
    "ALTER TABLE clusters ADD COLUMN future TEXT",
    "ALTER TABLE services ADD COLUMN future INTEGER NOT NULL DEFAULT 7",
    "ALTER TABLE ledger ADD COLUMN future TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE futures (id TEXT PRIMARY KEY)",
    "UPDATE alembic_version SET version_num = '9999'",
)
CHANGE = """mutation ($id: ID!, $name: String!) {
  updateCluster(id: $id, attributes: {name: $name}) { name } }"""


async def test_an_expanded_store_still_serves_the_replica_before(
    tmp_path: Path, git_server: GitServer
) -> None:
    """It reads, makes, changes and delivers."""
    data = tmp_path / "data"
    migrated.put_sqlite(data)
    async with running(data) as hub:
        before = await hub.cluster("before")
        with sqlite3.connect(data / "towline.db", timeout=30) as newer:
            for statement in EXPANSION:
                newer.execute(statement)
        newer.close()
        after = await hub.cluster("after")
        await hub.ask(CHANGE, id=before["id"], name="changed")
        repository = git_server.create_repository("skew")
        manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        sha = repository.commit({"app/a.yaml": manifest})
        service = await hub.service(after["id"], await hub.repository(repository.url), "app")
        await hub.service_until(service, lambda seen: seen["sha"] == sha)
        found = await hub.ask("{ clusters { edges { node { name } } } }")
        names = {edge["node"]["name"] for edge in found["clusters"]["edges"]}
        assert names == {"changed", "after"}
