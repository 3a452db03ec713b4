"""Clusters that answer reads of objects by path."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.domain.access import Actor
from core.errors import NotFound


@dataclass
class FakeLive:
    """The `LiveObjects` port: answers by path, and who asked."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def read(self, actor: Actor, handle: str, path: str) -> Mapping[str, Any]:
        self.asked.append((actor.name, handle, path))
        answer = self.answers.get(path.partition("?")[0], NotFound("no such object"))
        if isinstance(answer, Exception):
            raise answer
        return answer
