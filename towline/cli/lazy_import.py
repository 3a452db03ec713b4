"""Imports slow modules only when a command needs them, to keep `--help` fast."""

import gc
from importlib import import_module
from types import ModuleType


def load(module: str) -> ModuleType:
    """Imports a module and returns it.

    Modules live until the process ends, so the garbage collector is off during the import and
    ignores their objects afterwards.
    """
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()
