"""`towline demo`: starts the demo, then verifies its steps or shows it."""

import signal
import socket
import sys

from rich.console import Console

from towline.demo.dashboard import show
from towline.demo.environment import DemoEnvironment
from towline.demo.steps import DemoSteps, StepFailed

_USUAL_PORTS = (8443, 8080, 8444)


def run(*, check: bool) -> int:
    """Runs the demo; returns the exit code: 0 success, 1 a step failed."""
    console = Console(stderr=check, highlight=False)

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    ports = None if check or not _are_free(_USUAL_PORTS) else _USUAL_PORTS
    # SIGTERM must clean up too: the folders contain keys and tokens.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with DemoEnvironment(say, ports) as stage:
            stage.start()
            story = DemoSteps.begin(stage, say)
            if check:
                story.play()
                say("all steps passed")
            else:
                story.wait_healthy("dev")
                show(stage, story, console)
    except KeyboardInterrupt:
        return int(check)
    except StepFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _are_free(ports: tuple[int, int, int]) -> bool:
    """Returns true if the ports of the documentation are free."""
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True
