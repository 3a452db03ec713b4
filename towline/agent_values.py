"""Helm values for the chart of an agent, from the settings that its cluster has."""

import yaml

from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject
from gitcache.render.templates import expand_text


def agent_values(
    chart_values: JsonMapping, text: str, cluster: JsonMapping, *, templated: bool
) -> JsonObject:
    """Merges the values of size and image with those of the settings, which take precedence.

    Invalid: the settings contain no map, or a template refers to an unknown name.
    """
    if templated:
        text = expand_text("agentValues", text.encode(), {"cluster": dict(cluster)}).decode()
    try:
        given = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise Invalid(f"agentValues of the settings are not YAML: {error}") from None
    if not isinstance(given, dict):
        raise Invalid("agentValues of the settings are not a map of Helm values")
    return merged(chart_values, given)


def merged(base: JsonMapping, over: JsonMapping) -> JsonObject:
    """Merges maps as Helm does: lists and other values are replaced."""
    result = dict(base)
    for name, value in over.items():
        before = result.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        result[name] = merged(before, value) if both else value
    return result
