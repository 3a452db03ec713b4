"""What `towline agent` becomes: the agent alone, without what the command line holds in memory.

`python -m towline.agentprocess LEVEL`, with its settings in the environment.
"""

import os
import sys

from fleet.errors import TowlineError
from towline.cli.lazy import load


def main() -> None:
    """Run until a signal comes; the exit code is 1 if it cannot."""
    # The log's library would load it to draw failures in colours, which nobody sees here.
    sys.modules["rich"] = None  # ty: ignore[invalid-assignment]
    load("fleet.runtime.logs").configure(sys.argv[1])
    try:
        load("uvloop").run(load("towline.agent").run(os.environ))
    except TowlineError as error:
        print(f"towline: {error.message}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
