"""Loading what is slow to import only when a command needs it, so that `--help` is quick."""

import gc
from importlib import import_module
from typing import Any


def load(module: str) -> Any:
    """The module of this name.

    Modules stay until the end: while they are loaded, and from then on, the collector of garbage
    does not look through them.
    """
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()
