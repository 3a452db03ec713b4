"""How many files a process may open."""

import subprocess
import sys

PROGRAM = """
import resource
from core.runtime.process import raise_descriptor_limit
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
expected = 1 << 20 if hard == resource.RLIM_INFINITY else min(hard, 1 << 20)
print(raise_descriptor_limit() == expected)
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (expected, hard))
"""


def test_a_process_may_open_as_many_files_as_its_hard_limit_allows() -> None:
    command = [sys.executable, "-c", PROGRAM]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "True\nTrue\n"
