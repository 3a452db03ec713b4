"""Run as a program: leads a process group and ends all of it when the parent process is gone.

Standard input is a pipe that only the parent holds open; it closes whatever ends the parent.
A forked worker of the parent may hold the pipe too, so the parent's id is watched as well; it
is an argument, because the parent may be gone before this process asks for the first time.
"""

import os
import select
import signal
import sys


def main() -> None:
    """Wait for the end of the parent, then kill the own process group, this process included."""
    parent = int(sys.argv[1])
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        if readable:
            break
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
