"""Entry point of the agent process, without the memory of the command line's modules.

`towline agent` runs `python -m towline.agent_process LEVEL`, with settings in the environment.
"""

import os
import sys

from core.errors import TowlineError
from towline.cli.lazy_import import load


def main() -> None:
    """Runs the agent until a signal arrives; exits with 1 on failure."""
    # structlog would load rich to colour tracebacks, which nobody sees here, and greenlet.
    for unused in ("rich", "greenlet"):
        sys.modules[unused] = None  # ty: ignore[invalid-assignment]
    load("core.runtime.logs").configure(sys.argv[1])
    try:
        load("uvloop").run(load("towline.agent").run(os.environ))
    except TowlineError as error:
        print(f"towline: {error.message}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
