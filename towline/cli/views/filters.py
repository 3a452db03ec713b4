"""Finds saved views, and parses their queries, in the language of the console's filter."""

import re
from collections.abc import Collection
from typing import Annotated

import typer

from core.errors import Invalid, NotFound
from towline.cli.views.generated import SavedView, saved_views
from towline.operations import GraphQLApi

View = Annotated[
    str | None,
    typer.Option(
        "--view", help="Saved view, by name or id: its filter. Other options replace its parts."
    ),
]
_WORD = re.compile(r'[^\s"]*"[^"]*"|\S+')
_CONDITION = re.compile(r"([a-z]+):(.*)", re.DOTALL)


def find_view(api: GraphQLApi, name: str, list: str | None = None) -> SavedView:
    """Finds a view by name or id; of several with a name, the own one.

    Invalid: several views have this name.
    """
    views = saved_views(api, list=list)
    matching = [view for view in views if name in (view["name"], view["id"])]
    preferred = [view for view in matching if view["own"]] or matching
    if not preferred:
        raise NotFound(f"could not find view {name}; `towline views list` shows yours")
    if len(preferred) > 1:
        places = ", ".join(f"{view['id']} of {view['list']}" for view in preferred[:5])
        raise Invalid(f"{len(preferred)} views are called {name}; use an id: {places}")
    return preferred[0]


def conditions_of_view(
    api: GraphQLApi, list: str, name: str | None, allowed: Collection[str]
) -> tuple[str, dict[str, list[str]]]:
    """Returns the words of a view's query, and the values of its conditions and other filters.

    Both are empty without a name. Invalid: the command has no such condition.
    """
    return ("", {}) if name is None else parse_view(find_view(api, name, list), allowed)


def parse_view(view: SavedView, allowed: Collection[str]) -> tuple[str, dict[str, list[str]]]:
    """Parses the query and the other filters of a view."""
    words: list[str] = []
    values: dict[str, list[str]] = {}
    for word in _WORD.findall(view["query"]):
        if (condition := _CONDITION.fullmatch(word)) is None:
            words.append(word.replace('"', ""))
        else:
            given = condition[2].replace('"', "").split(",")
            values.setdefault(condition[1], []).extend(filter(None, given))
    for name, value in view["filters"].items():
        values.setdefault(name, []).append(str(value))
    if unknown := sorted(values.keys() - set(allowed)):
        raise Invalid(
            f"view {view['name']} has the condition {unknown[0]}, which this command does not "
            f"know; known: {', '.join(sorted(allowed))}",
            field="--view",
        )
    return " ".join(words), values
