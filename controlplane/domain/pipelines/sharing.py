"""Pipelines that share services: in which order a change walks through all of them."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from controlplane.domain.pipelines.model import Pipeline
from fleet.errors import Invalid


def check_order(pipelines: Iterable[Pipeline], names: Mapping[str, str]) -> None:
    """Invalid: services would promote each other in a circle; names it, by `names` of services.

    A pipeline leads from the services of a stage to those of the stages behind it.
    """
    before: dict[str, set[str]] = {}
    for pipeline in pipelines:
        for stage in pipeline.stages:
            node = f"{pipeline.name}/{stage.name}"
            sources = before.setdefault(node, set())
            for edge in pipeline.edges_into[stage.id]:
                sources.add(f"{pipeline.name}/{pipeline.stage[edge.source].name}")
            for service in stage.services:
                if stage is pipeline.first:
                    sources.add(service)
                else:
                    before.setdefault(service, set()).add(node)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        circle = " → ".join(names.get(one, one) for one in reversed(error.args[1]))
        raise Invalid(f"pipelines would promote in a circle: {circle}", field="stages") from None
