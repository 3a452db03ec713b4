"""A control plane's API with answers written down beforehand."""

from collections.abc import Mapping
from typing import Any

from core.errors import NotFound


class FakeApi:
    """Answers each document with what was given for it; remembers what it was asked.

    An answer is `data`, or an error to raise; a document without one is not found.
    """

    def __init__(self, answers: Mapping[Any, Any] | None = None) -> None:
        self.answers: dict[str, Any] = dict(answers or {})
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def ask(self, document: str, /, **variables: Any) -> Any:
        self.asked.append((document, variables))
        answer = self.answers.get(document, NotFound())
        if isinstance(answer, Exception):
            raise answer
        return answer(**variables) if callable(answer) else answer

    def sent(self, document: str) -> list[dict[str, Any]]:
        """The variables that came with a document."""
        return [variables for asked, variables in self.asked if asked == document]
