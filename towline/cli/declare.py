"""`towline apply`."""

from pathlib import Path
from typing import Annotated

import typer

from towline.cli.manifests import read_manifests
from towline.cli.output import colour
from towline.cli.plan import Planner
from towline.cli.session import connect

_COLOURS = {"+": "green", "~": "yellow"}


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Option("-f", "--file", help="YAML file, or a folder of them.")],
    dry_run: Annotated[bool, typer.Option(help="Only tell what would change.")] = False,
) -> None:
    """Create and change clusters, repositories, services, pipelines and definitions as files say.

    \b
    Example:
      towline apply -f fleet/ --dry-run
      towline apply -f fleet/
    """
    manifests = read_manifests(file)
    planner = Planner(connect(context), dry_run=dry_run)
    for manifest in manifests:
        for line in planner.apply(manifest):
            print(colour(line, _COLOURS.get(line[0])), flush=True)
