"""Renders the charts to plain manifests, which are also bases for Kustomize.

python -m charts.manifests FOLDER

`deploy/kubernetes/NAME/values.yaml` has the values of each base; `FOLDER` is the output root.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import yaml

from charts.package import install_tools

ROOT = Path(__file__).parents[1]
BASES = Path("deploy/kubernetes")
CHART_OF = {"one": "towline", "scaled": "towline", "agent": "towline-agent"}
NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": "towline",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
    },
}
HELMS_OWN = {"helm.sh/chart", "app.kubernetes.io/managed-by"}

Json = dict[str, Any]


def objects_of(base: str) -> list[Json]:
    """Renders the objects of a base, with its namespace first and without Helm's own labels."""
    helm = importlib.import_module("helm_python")
    chart = CHART_OF[base]
    values = yaml.safe_load((ROOT / BASES / base / "values.yaml").read_text())
    with helm.Chart.load(ROOT / "charts" / chart) as loaded:
        texts = loaded.render(values, name=chart, namespace="towline")
    rendered = [text for path, text in sorted(texts.items()) if path.endswith(".yaml")]
    objects = [
        document
        for text in rendered
        for document in yaml.load_all(text, yaml.CSafeLoader)
        if document
    ]
    return [NAMESPACE, *map(without_helms_labels, objects)]


def without_helms_labels(value: Any) -> Any:
    """Removes Helm's own labels, as plain manifests are not applied by Helm."""
    if isinstance(value, dict):
        return {k: without_helms_labels(v) for k, v in value.items() if k not in HELMS_OWN}
    if isinstance(value, list):
        return [without_helms_labels(item) for item in value]
    return value


def manifests_of(base: str) -> str:
    """Formats the manifests of a base as YAML documents."""
    head = f"# Generated from charts/{CHART_OF[base]} and values.yaml by `make manifests`.\n"
    return head + yaml.dump_all(objects_of(base), Dumper=_Readable, sort_keys=False, width=100)


class _Readable(yaml.SafeDumper):
    """Writes multi-line strings as blocks instead of escaped lines."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _block)


def main(root: Path) -> None:
    """Writes all bases."""
    install_tools()
    for base in CHART_OF:
        folder = root / BASES / base
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "manifests.yaml").write_text(manifests_of(base))
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": ["manifests.yaml"],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization, sort_keys=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
