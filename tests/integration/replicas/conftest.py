"""Replicas of the control plane as processes, shared by the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.integration.replicas.fleet import Fleet
from tests.migrated import new_postgres
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis, find_redis


@pytest.fixture(scope="module")
def own_redis(redis: Redis) -> Iterator[Redis]:
    """A server that tests may freeze."""
    program = find_redis()
    assert program is not None
    with Redis(program) as server:
        yield server


@pytest.fixture(scope="module")
def replicas(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, own_redis: Redis
) -> Iterator[Fleet]:
    """Three replicas that run."""
    database = new_postgres(postgres)
    fleet = Fleet(tmp_path_factory.mktemp("replicas"), database, own_redis.url)
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()
        postgres.drop_database(database)
