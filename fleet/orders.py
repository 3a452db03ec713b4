"""What an agent is asked to render, in the form in which it is sealed to that agent."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from fleet.errors import Invalid
from fleet.source import (
    GitCredentials,
    HelmRelease,
    Renderer,
    RenderRequest,
    RepositoryKind,
    RepositorySpec,
    SourceFolder,
)

NAME = "order"
"""The name under which the order of a command is sealed."""


@dataclass(frozen=True, slots=True, repr=False)
class RenderOrder:
    """A render, and the repositories that it reads, each with what signs in there and nowhere else.

    Never printed: it has no repr.
    """

    request: RenderRequest
    repositories: tuple[RepositorySpec, ...]


def dump_order(order: RenderOrder) -> bytes:
    """JSON, with all that is secret in clear: only to be sealed. Invalid: no JSON can say it."""
    try:
        return orjson.dumps(
            {
                "request": asdict(order.request),
                "repositories": [
                    asdict(replace(repository, refs=frozenset(), folders=frozenset()))
                    for repository in order.repositories
                ],
            },
            default=_listed,
        )
    except TypeError as error:
        raise Invalid(f"the parameters of a render cannot be written as JSON: {error}") from None


def load_order(data: bytes) -> RenderOrder:
    """What `dump_order` wrote. Invalid: it is something else; nothing of it is told."""
    try:
        raw = orjson.loads(data)
        return RenderOrder(
            _request(raw["request"]), tuple(_repository(item) for item in raw["repositories"])
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Invalid("the order to render cannot be read: is this agent too old?") from None


def _request(raw: Mapping[str, Any]) -> RenderRequest:
    read: dict[str, Any] = dict(raw)
    if (helm := raw["helm"]) is not None:
        read["helm"] = HelmRelease(**helm | {"values_files": tuple(helm["values_files"])})
    read["renderer"] = Renderer(raw["renderer"])
    read["sources"] = tuple(SourceFolder(**item) for item in raw["sources"])
    return RenderRequest(**read)


def _repository(raw: Mapping[str, Any]) -> RepositorySpec:
    read: dict[str, Any] = dict(raw)
    if (given := raw["credentials"]) is not None:
        read["credentials"] = GitCredentials(**given)
    # The hub of a version before knows git only.
    read["kind"] = RepositoryKind(raw.get("kind", RepositoryKind.GIT))
    read["refs"], read["folders"] = frozenset(raw["refs"]), frozenset(raw["folders"])
    return RepositorySpec(**read)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, frozenset | set | tuple):
        return sorted(value)
    raise TypeError(type(value).__name__)
