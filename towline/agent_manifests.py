"""The agent's chart: its Helm values, and its manifests for clusters without Helm."""

import io
import re
import tarfile
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path

import yaml

from core.errors import Invalid, Unavailable
from core.json_object import JsonMapping, JsonObject
from gitcache.render.charts import merge_values
from gitcache.render.templates import expand_text
from towline.client import opener
from towline.contexts import ControlPlaneTarget

CHART = "towline-agent"
NAMESPACE = "towline-agent"

_MAX_BYTES = 4 << 20
_SECONDS = 30.0
# Helm does not apply these manifests.
_LABELS_OF_HELM = re.compile(
    r"^ *(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE
)
_SEPARATOR = re.compile(r"^---\s*$", re.MULTILINE)
_CONTENT = re.compile(r"^\s*[^#\s]", re.MULTILINE)


def agent_values(
    chart_values: JsonMapping, text: str, cluster: JsonMapping, *, templated: bool
) -> JsonObject:
    """Merges the values of size and image with those of the settings, which take precedence.

    Invalid: the settings contain no map, or a template refers to an unknown name.
    """
    if templated:
        text = expand_text("agentValues", text.encode(), {"cluster": dict(cluster)}).decode()
    try:
        settings_values = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise Invalid(f"agentValues of the settings are not YAML: {error}") from None
    if not isinstance(settings_values, dict):
        raise Invalid("agentValues of the settings are not a map of Helm values")
    return merge_values(chart_values, settings_values)


def chart_url(target: ControlPlaneTarget) -> str:
    """URL of the packed chart, which needs no token."""
    return f"{target.url}/ext/v1/agent/chart"


def fetch_chart(target: ControlPlaneTarget) -> bytes:
    """Reads the packed chart. Unavailable: the control plane does not answer."""
    request = urllib.request.Request(chart_url(target))
    try:
        with opener(target).open(request, timeout=_SECONDS) as response:
            return response.read(_MAX_BYTES)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(f"cannot read the agent's chart from {target.url}: {reason}") from None


def render_manifests(chart: bytes, values: JsonObject, namespace: str) -> str:
    """Renders a packed chart as YAML documents, the namespace first.

    Invalid: Helm refuses the chart or the values. Unavailable: this machine has no engine of Helm.
    """
    try:
        import helm_python as helm
    except ImportError:
        raise Unavailable(
            "Helm's engine has no package for this machine; leave out --kubectl, and use Helm"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(chart)) as archive:
            archive.extractall(folder, filter="data")
        try:
            with helm.Chart.load(Path(folder, CHART)) as loaded:
                texts = loaded.render(values, name=CHART, namespace=namespace)
        except helm.HelmError as error:
            raise Invalid(f"the agent's chart cannot be rendered: {error}") from None
    first = f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n"
    rendered = [text for path, text in sorted(texts.items()) if path.endswith(".yaml")]
    parts = [part.strip("\n") for text in (first, *rendered) for part in _SEPARATOR.split(text)]
    documents = "\n---\n".join(part for part in parts if _CONTENT.search(part))
    return _LABELS_OF_HELM.sub("", f"{documents}\n")
