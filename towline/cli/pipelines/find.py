"""Finds pipelines and their gates by the names that commands accept."""

from core.errors import Invalid, NotFound
from towline.cli.pipelines.generated import Edge, Gate, PipelineDetails, Stage, pipeline
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_pipeline(api: GraphQLApi, name: str) -> PipelineDetails:
    """Finds a pipeline by name, else by id."""
    return first_found(
        f"pipeline {name}",
        lambda: pipeline(api, name=name),
        lambda: pipeline(api, id=name),
        listed_by="pipelines list",
    )


def find_gate(pipeline: PipelineDetails, name: str | None) -> tuple[Edge | Stage, Gate]:
    """Finds a gate by name or id, or the only one waiting for approval, with its edge or stage."""
    gates: list[tuple[Edge | Stage, Gate]] = [
        (edge, gate) for edge in pipeline["edges"] for gate in edge["gates"]
    ]
    workflows = [(stage, stage["workflow"]) for stage in pipeline["stages"] if stage["workflow"]]
    if name is None:
        asking = ("APPROVAL", "MANUAL", "WORKFLOW")
        gates = [(e, g) for e, g in gates if g["type"] in asking and e["release"]]
        gates += [(s, g) for s, g in workflows if g["state"] == "RUNNING"]
    else:
        gates = [(e, g) for e, g in (*gates, *workflows) if name in (g["id"], g["name"])]
    if len(gates) > 1:
        names = ", ".join(f"{gate['name']} ({gate['id']})" for _, gate in gates)
        raise Invalid(f"several gates match; name one of {names}")
    if not gates:
        state = f"`towline pipelines get {pipeline['name']}` shows its gates and their state"
        missing = f"has no gate {name}" if name else "has no gate that waits for an approval"
        raise NotFound(f"pipeline {pipeline['name']} {missing}; {state}")
    return gates[0]
