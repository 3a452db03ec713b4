"""`towline apply`."""

from pathlib import Path
from typing import Annotated

import typer

from towline.cli.lazy_import import load
from towline.cli.shell.output import colour
from towline.cli.shell.session import connect

_COLOURS = {"+": "green", "~": "yellow"}


def apply(
    context: typer.Context,
    file: Annotated[
        list[Path],
        typer.Option(
            "-f",
            "--file",
            help="YAML file, or a folder of YAML files; - reads standard input; repeatable.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option(help="Print the changes without making them.")] = False,
) -> None:
    """Create and update resources from manifests.

    Kinds: clusters, repositories, secrets, services, pipelines, contexts and generators.

    \b
    Example:
      towline apply -f fleet/ --dry-run
      towline apply -f fleet/
      towline apply -f clusters.yaml -f services.yaml
    """
    manifests = load("towline.cli.apply.manifests").read_manifests(*file)
    planner = load("towline.cli.apply.plan").ManifestPlanner(connect(context), dry_run=dry_run)
    for manifest in manifests:
        for line in planner.apply(manifest):
            print(colour(line, _COLOURS.get(line[0])), flush=True)
