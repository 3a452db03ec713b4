"""Pipelines that share services: the order in which a change passes through all of them."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from controlplane.pipelines.model.pipeline import Pipeline
from core.errors import Invalid


def check_promotion_order(pipelines: Iterable[Pipeline], names: Mapping[str, str]) -> None:
    """Raises Invalid, naming the cycle, if services would promote each other in a cycle.

    A pipeline leads from the services of a stage to those of the next stages. `names` has the
    services' names.
    """
    predecessors: dict[str, set[str]] = {}
    for pipeline in pipelines:
        for stage in pipeline.stages:
            node = f"{pipeline.name}/{stage.name}"
            sources = predecessors.setdefault(node, set())
            for edge in pipeline.edges_into[stage.id]:
                sources.add(f"{pipeline.name}/{pipeline.stage[edge.source].name}")
            for service in stage.services:
                if stage is pipeline.first:
                    sources.add(service)
                else:
                    predecessors.setdefault(service, set()).add(node)
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as error:
        cycle = " → ".join(names.get(service, service) for service in reversed(error.args[1]))
        raise Invalid(f"pipelines would promote in a cycle: {cycle}", field="stages") from None
