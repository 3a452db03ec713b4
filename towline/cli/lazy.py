"""Loading what is slow to import only when a command needs it, so that `--help` is quick."""

from importlib import import_module
from typing import Any


def load(module: str) -> Any:
    """The module of this name."""
    return import_module(module)
