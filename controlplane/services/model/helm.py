"""Validation of a service's Helm settings, and their meaning for rendering."""

from urllib.parse import urlsplit

import yaml

from controlplane.platform.limits import check_count, check_length
from controlplane.repositories.model.repository import check_ref
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject
from core.remotes import parse_chart_remote
from core.spec.renderers import HelmRelease, chart_ref

_TEXTS = {"chart": 256, "version": 128, "url": 2000, "release": 53, "values": 512 * 1024}
_FLAGS = ("ignore_hooks", "ignore_crds")
_MAX_FILES = 64
_MAX_PATH_LENGTH = 1024
_SCHEMES = ("https", "http", "oci")
_PLACEHOLDERS = ("{{", "{%", "${")
_DOCUMENT_EVENTS = 3
"""Start of the stream, start of the document, and start of its value."""


def check_helm(settings: JsonMapping) -> JsonObject:
    """Returns the given settings in their stored form. Raises Invalid, naming the field."""
    checked: JsonObject = {}
    for name, max_length in _TEXTS.items():
        value = settings.get(name)
        check_length(value or "", f"helm.{name}", max_length)
        if value:
            checked[name] = value
    checked |= {name: True for name in _FLAGS if settings.get(name)}
    files = [path for path in settings.get("values_files") or () if path]
    check_count(len(files), "helm.valuesFiles", _MAX_FILES)
    for path in files:
        check_length(path, "helm.valuesFiles", _MAX_PATH_LENGTH)
    if files:
        checked["values_files"] = files
    _check_url(checked)
    _check_values(checked)
    return checked


def release_of(name: str, namespace: str, helm: JsonMapping | None) -> HelmRelease:
    """Returns the Helm release to render. Its name defaults to the service's name."""
    values: JsonObject = {"release": name, **(helm or {})}
    files = tuple(values.pop("values_files", ()))
    return HelmRelease(namespace=namespace, values_files=files, **values)


def ref_of_chart(helm: JsonMapping) -> str:
    """Returns the ref that represents chart and version of the settings. Raises Invalid without a
    chart.
    """
    if not helm.get("chart"):
        raise Invalid("is required: name the chart in the Helm repository", field="helm.chart")
    return check_ref(_ref_of_settings(helm))


def follows_chart(ref: str, helm: JsonMapping | None) -> bool:
    """Returns whether a ref is the chart of these settings, as in services of a Helm repository.

    In services of a git repository the settings name the chart's source by URL or folder.
    """
    return bool(helm and helm.get("chart") and "url" not in helm and ref == _ref_of_settings(helm))


def followed_source(ref: str, helm: JsonMapping | None) -> str:
    """Returns a ref for people; for a chart its name and version."""
    if helm is None or not follows_chart(ref, helm):
        return ref
    return f"{helm['chart']} {helm.get('version') or '*'}"


def _ref_of_settings(helm: JsonMapping) -> str:
    return chart_ref(helm["chart"], helm.get("version") or "")


def _check_values(helm: JsonMapping) -> None:
    """Raises Invalid unless the values are a YAML map; placeholders may still make them one."""
    text = helm.get("values", "")
    problem = _yaml_problem(text)
    if problem and not any(placeholder in text for placeholder in _PLACEHOLDERS):
        raise Invalid(problem, field="helm.values")


def _yaml_problem(text: str) -> str:
    """Returns why a text is not one YAML map. Reads events: nesting has no limit here."""
    kinds: list[type[yaml.Event]] = []
    try:
        for event in yaml.parse(text, yaml.CBaseLoader):
            if len(kinds) < _DOCUMENT_EVENTS or isinstance(event, yaml.DocumentStartEvent):
                kinds.append(type(event))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return f"is not YAML, line {line}: {error.problem}"
    except yaml.YAMLError as error:
        return f"is not YAML: {str(error).splitlines()[0]}"
    if kinds.count(yaml.DocumentStartEvent) > 1:
        return "must be one YAML document"
    is_map = yaml.MappingStartEvent in kinds or yaml.DocumentStartEvent not in kinds
    return "" if is_map else "must be a YAML map"


def _check_url(helm: JsonMapping) -> None:
    if "url" not in helm:
        return
    parts = urlsplit(helm["url"])
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.username or parts.password:
        raise Invalid("must be https://… or oci://…, without credentials", field="helm.url")
    if not any(placeholder in helm["url"] for placeholder in _PLACEHOLDERS):
        try:
            parse_chart_remote(helm["url"])
        except Invalid as error:
            raise Invalid(error.message, field="helm.url") from None
    if "chart" not in helm:
        raise Invalid(
            "is required with a URL: name the chart in the Helm repository", field="helm.chart"
        )
