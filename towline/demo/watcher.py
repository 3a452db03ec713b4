"""Program that leads a process group, and kills the group when its parent process ends.

Standard input is a pipe from the parent, which closes when the parent ends. A forked worker of the
parent may hold the pipe too, so the program also watches the parent's id. The id is an argument,
because the parent may end before this program reads it.
"""

import os
import select
import signal
import sys


def main() -> None:
    """Waits for the end of the parent, then kills its own process group, including itself."""
    parent = int(sys.argv[1])
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        if readable:
            break
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
