"""References in the files of a folder. Workers import this module too, so it stays small."""

from collections.abc import Sequence
from dataclasses import dataclass

Reads = Sequence[Sequence[str]]
"""Paths of the parameters that a worker read; others did not affect its result."""


@dataclass(frozen=True, slots=True)
class ChartRef:
    """A reference to a chart: `version` is exact, a range, or empty for the newest.

    `repository` is the URL of a chart repository, `oci://…`, or `file://…` relative to the
    chart. Credentials are those of `project`. `folder` is that of a kustomization with the chart.
    """

    repository: str
    name: str
    version: str = ""
    project: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class References:
    """References in the files of a folder: relative paths, charts, outside link targets, bases.

    `bases` are URLs that `remote_bases.parse_base` reads.
    """

    paths: Sequence[str] = ()
    charts: Sequence[ChartRef] = ()
    reads: Reads = ()
    links: Sequence[str] = ()
    bases: Sequence[str] = ()
