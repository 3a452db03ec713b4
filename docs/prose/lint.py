"""Checks the prose of the repository with `vale`: run `.venv/bin/python -m docs.prose.lint`.

It reads pages, schema descriptions, help texts, texts of the console, and the docstrings, comments
and messages of our packages. The rules are below `styles/`. `--warnings` prints findings that do
not fail, too, such as long sentences.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.prose.binary import ensure_vale
from docs.prose.texts import console_texts, help_texts, python_docs, schema_docs

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "controlplane", "syncagent", "gitcache", "proxy", "towline")
_EXTRACTED = ROOT / "dist" / "prose"


def main(words: list[str]) -> int:
    """Print the findings; 1 if one is an error."""
    extract(_EXTRACTED)
    found = list(findings(ensure_vale(), warnings="--warnings" in words))
    for _, line in found:
        print(line, file=sys.stderr)
    return int(any(severity == "error" for severity, _ in found))


def extract(folder: Path) -> None:
    """Write all prose into `folder` as Markdown, each file at the path of its source."""
    shutil.rmtree(folder, ignore_errors=True)
    for source, text in _sources():
        target = folder / source
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def findings(vale: Path, *, warnings: bool) -> Iterator[tuple[str, str]]:
    """(severity, printable line) of everything that vale reports."""
    level = "warning" if warnings else "error"
    done = subprocess.run(
        [vale, "--config", ROOT / ".vale.ini", "--output=JSON", f"--minAlertLevel={level}", "."],
        cwd=_EXTRACTED,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout.startswith("{"):
        raise SystemExit(f"vale failed: {done.stdout}{done.stderr}")
    files: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    for file, alerts in sorted(files.items()):
        source = file.removesuffix(".md") if (ROOT / file.removesuffix(".md")).is_file() else file
        source = source.replace("cli.help", "cli")
        for alert in alerts:
            severity = alert["Severity"]
            yield severity, f"{source}:{alert['Line']}: {severity}: {alert['Message']}"


def _sources() -> Iterator[tuple[str, str]]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in [*pages, *(ROOT / "charts").rglob("*.md")]:
        name = page.relative_to(ROOT).as_posix()
        if name == "docs/reference/cli.md":
            yield "docs/reference/cli.help.md", help_texts(page.read_text())
        else:
            yield name, page.read_text()
    yield "schema.graphql.md", schema_docs((ROOT / "schema.graphql").read_text())
    for suffix in ("ts", "tsx"):
        for file in (ROOT / "console/src").rglob(f"*.{suffix}"):
            if file.parent.name != "api":
                yield f"{file.relative_to(ROOT)}.md", console_texts(file.read_text())
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            if "_pb2" not in file.name and file.parent.name != "versions":
                yield f"{file.relative_to(ROOT)}.md", python_docs(file.read_text())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
