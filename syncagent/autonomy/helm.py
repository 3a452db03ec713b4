"""Helm settings of a service that the cluster defines itself.
helm: {chart: web, valuesFiles: [prod.yaml], values: {replicas: 2}}
"""

import orjson

from core.errors import Invalid
from core.spec.renderers import HelmRelease
from syncagent.autonomy.alias_size import expanded

_TEXTS = {"release": 53, "chart": 256, "version": 128, "url": 2000}
_FLAGS = ("ignoreHooks", "ignoreCrds")
_FIELDS = (*_TEXTS, *_FLAGS, "values", "valuesFiles")
_SCHEMES = ("https://", "http://", "oci://")
_MAX_VALUES = 256 << 10
_MAX_FILES = 64


def release_of(raw: object, name: str, namespace: str) -> HelmRelease:
    """Parses the release; its default name is the service's. Invalid: names the wrong field."""
    if not isinstance(raw, dict) or not raw.keys() <= set(_FIELDS):
        raise Invalid(f"helm has unknown fields; expected {', '.join(_FIELDS)}")
    texts = {field: raw[field] for field in _TEXTS if field in raw}
    for field, text in texts.items():
        if not isinstance(text, str) or not 0 < len(text) <= _TEXTS[field]:
            raise Invalid(f"helm.{field} is a text of at most {_TEXTS[field]} characters")
    flags = {field: raw.get(field, False) for field in _FLAGS}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise Invalid(f"helm.{' and helm.'.join(_FLAGS)} are true or false")
    _check_place(texts)
    return HelmRelease(
        release=texts.get("release", name),
        namespace=namespace,
        chart=texts.get("chart"),
        version=texts.get("version"),
        url=texts.get("url"),
        values=_values(raw["values"]) if "values" in raw else None,
        values_files=_files(raw.get("valuesFiles", [])),
        ignore_hooks=flags["ignoreHooks"],
        ignore_crds=flags["ignoreCrds"],
    )


def _check_place(texts: dict[str, str]) -> None:
    url = texts.get("url")
    if url is None:
        return
    if not url.startswith(_SCHEMES) or "@" in url:
        raise Invalid("helm.url is https://… or oci://…, without credentials")
    if "chart" not in texts:
        raise Invalid("helm.chart is missing: helm.url needs the name of a chart")


def _values(raw: object) -> str:
    """Encodes values as YAML text; JSON is valid YAML."""
    if isinstance(raw, str):
        text = raw
    elif not isinstance(raw, dict) or expanded(raw) > _MAX_VALUES:
        raise Invalid(f"helm.values is a map or a text, of at most {_MAX_VALUES:,} bytes")
    else:
        try:
            text = orjson.dumps(raw).decode()
        except TypeError as error:
            raise Invalid(f"helm.values cannot be written as JSON: {error}") from None
    if len(text) > _MAX_VALUES:
        raise Invalid(f"helm.values has more than {_MAX_VALUES:,} characters")
    return text


def _files(raw: object) -> tuple[str, ...]:
    is_list = isinstance(raw, list) and len(raw) <= _MAX_FILES
    if not is_list or not all(isinstance(path, str) and path for path in raw):
        raise Invalid(f"helm.valuesFiles is a list of at most {_MAX_FILES} paths")
    return tuple(raw)
