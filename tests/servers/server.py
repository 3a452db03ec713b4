"""Common parts of the servers of a test run."""

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from towline.demo.process_group import ProcessGroup


class Server(ABC):
    """Programs with a folder of their own, from `with` to its end."""

    def __init__(self, name: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"towline-{name}-"))
        self._group = ProcessGroup()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the server and remove its data."""
        self._group.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @abstractmethod
    def _start(self) -> None:
        """Start it, and wait until it answers."""
