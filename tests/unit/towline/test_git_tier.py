"""Modules that a git cache process loads: each replica pays for them in memory."""

import subprocess
import sys

_LOADED = "import sys, towline.serve.git_cache_process; print(*sorted(sys.modules))"


def test_a_replica_of_the_git_cache_loads_neither_the_api_nor_grpc() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"gitcache", "redis"} <= loaded
    assert not {"strawberry", "graphql", "grpc", "sqlalchemy"} & loaded, sorted(loaded)
