"""Modules that a git cache process loads: each replica pays for them in memory."""

import subprocess
import sys

_LOADED = "import sys, towline.serve.git_cache_process; print(*sorted(sys.modules))"


def test_a_replica_of_the_git_cache_loads_no_api_no_grpc_and_no_redis() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "gitcache" in loaded
    assert not {"strawberry", "graphql", "grpc", "sqlalchemy", "redis"} & loaded, sorted(loaded)
