"""`towline demo`: set the stage, then play the story or stay in front."""

import signal
import socket
import sys

from rich.console import Console

from towline.demo.live import show
from towline.demo.stage import DemoStage
from towline.demo.story import StepFailed, Story

_USUAL_PORTS = (8443, 8080, 8444)


def run(*, check: bool) -> int:
    """Run the demo; the exit code: 0 done, 1 the story was not played to its end."""
    console = Console(stderr=check, highlight=False)

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    ports = None if check or not _are_free(_USUAL_PORTS) else _USUAL_PORTS
    # Its folders hold keys and tokens: nobody's end of it leaves them behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with DemoStage(say, ports) as stage:
            stage.start()
            story = Story.begin(stage, say)
            if check:
                story.play()
                say("the whole story came true")
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
    """Whether nobody listens on the ports that the documentation names."""
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True
