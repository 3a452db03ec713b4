"""A render worker is a process of its own, several in each cache: it loads what it needs alone."""

import subprocess
import sys

_LOADED = "import sys, gitcache.render.worker; print(*sorted(sys.modules))"


def test_a_worker_loads_neither_cryptography_nor_network_modules() -> None:
    """The process that asks it verifies signatures and fetches; twice the time to start else."""
    program = [sys.executable, "-P", "-c", _LOADED]
    loaded = subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()
    assert set(loaded).isdisjoint({"asyncio", "cryptography", "grpc", "ssl"})
