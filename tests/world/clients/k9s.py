"""k9s on a terminal: what its screen shows of a pod, with its logs, its shell and its deletion."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from core.errors import Unavailable
from tests.world.clients.screen import Screen, on_screen

_BACK, _CONTROL_D, _TAB = "\x1b", "\x04", "\t"
_SETTINGS = {
    "k9s": {
        "refreshRate": 2,
        "skipLatestRevCheck": True,
        "ui": {"headless": True, "logoless": True, "noIcons": True, "splashless": True},
    }
}
_FRAMES = re.compile("[\u2500-\u257f]")
# Values that differ from pod to pod. The line of the version also names the context.
_CHANGING = re.compile(
    r"\d+\.\d+\.\d+\.\d+|\b\d+[smh](\d+s)?\b|\d{4}-\d\d-\d\dT[\d:]+Z|kube-api-access-\w+"
)
_VOLATILE = (
    *("uid:", "resourceVersion:", "Start Time:", "Started:", "Container ID:", "K9s v"),
    # Messages that go away by themselves.
    *("Viewing v1/pods", "Delete resource v1/pods"),
)


def operations(command: Sequence[str | Path]) -> Callable[[Path, str], dict[str, object]]:
    """Returns the operations of k9s, for a kubeconfig and a namespace with the pod `box`."""

    def run(kubeconfig: Path, namespace: str) -> dict[str, object]:
        with tempfile.TemporaryDirectory(prefix="towline-k9s-") as folder:
            (Path(folder) / "config.yaml").write_text(yaml.safe_dump(_SETTINGS))
            own = {"K9S_CONFIG_DIR": folder, "K9S_LOGS_DIR": folder, "HOME": folder}
            started = [*command, "--kubeconfig", kubeconfig, "--namespace", namespace]
            with on_screen([*started, "--command", "pods"], {**os.environ, **own}) as screen:
                found: dict[str, object] = {}
                try:
                    for name, lines in _operations(screen):
                        found[name] = "\n".join(steady(lines))
                except Unavailable as error:
                    found["the next operation"] = f"Error: {error.message}"
                return found

    return run


def _operations(screen: Screen) -> Iterator[tuple[str, Sequence[str]]]:
    yield "list of pods", screen.read_until(_shows("box", "1/1", "Running", "[1]"))
    screen.type("d")
    yield "describe", screen.read_until(_shows("Describe", "Name: ", "Events:"))
    screen.type(_BACK)
    screen.read_until(_shows("[1]", "1/1"))
    screen.type("y")
    yield "YAML", screen.read_until(_shows("kind: Pod", "nodeName: "))
    screen.type(_BACK)
    screen.read_until(_shows("[1]", "1/1"))
    screen.type("l")
    # The pod writes on, so that the rest of the screen depends on the time.
    yield "logs", _with("line 101 of", screen.read_until(_shows("line 101 of box/main")))
    screen.type(_BACK)
    screen.read_until(_shows("[1]", "1/1"))
    screen.type("s")
    screen.read_until(_shows("<<K9s-Shell>>"))
    screen.type("echo $POD_NAME-$((6*7))\r")
    yield "shell", _with("box", screen.read_until(_shows("box-42")))
    screen.type("exit\r")
    screen.read_until(_shows("[1]", "1/1"))
    screen.type(_CONTROL_D)
    yield "question before a deletion", screen.read_until(_shows("Delete", "OK"))
    screen.type(f"{_TAB}\r")
    yield "list after the deletion", screen.read_until(_shows("[0]"))


def _with(text: str, lines: Sequence[str]) -> list[str]:
    return [line for line in lines if text in line]


def _shows(*texts: str) -> Callable[[list[str]], bool]:
    return lambda lines: all(any(text in line for line in lines) for text in texts)


def steady(lines: Sequence[str]) -> Iterator[str]:
    """Yields the lines of a screen without values that differ from pod to pod."""
    for line in (_FRAMES.sub(" ", line) for line in lines):
        if line.strip() and not any(mark in line for mark in _VOLATILE):
            yield " ".join(_CHANGING.sub("~", line).split())
