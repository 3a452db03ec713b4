"""`towline apply`, `diff`, `delete`, `export`, `schema` and `explain`."""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Invalid, NotFound
from core.json_object import JsonObject
from core.manifest_files import is_manifest
from towline.cli.manifests import generated as operations
from towline.cli.manifests.generated import Plan
from towline.cli.manifests.plans import print_items, problem_lines
from towline.cli.manifests.values import SECRET, fill_secret_values, no_value
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.found_code import FOUND
from towline.cli.shell.session import connect
from towline.input_files import read_text

if TYPE_CHECKING:
    from towline.generated_inputs import ManifestSource

MAX_BYTES = 8 << 20
_NO_CONTENT = ("#", "---", "...", "%")

Files = Annotated[
    list[Path],
    typer.Option(
        "-f",
        "--file",
        help="File of manifests, or a folder of them; - reads standard input; repeatable.",
    ),
]
Manager = Annotated[str, typer.Option(help="Name under which the fields are owned.")]
Force = Annotated[bool, typer.Option(help="Take over fields that other managers own.")]
DryRun = Annotated[bool, typer.Option(help="Print the changes without making them.")]


def apply(
    context: typer.Context,
    file: Files,
    dry_run: DryRun = False,
    prune_set: Annotated[
        str | None,
        typer.Option(help="Set of the resources; deletes resources of the set without a document."),
    ] = None,
    max_deletions: Annotated[int, typer.Option(help="Maximum number of deletions.")] = 0,
    force: Force = False,
    manager: Manager = "cli",
) -> None:
    """Create and update resources from manifests, all or none.

    \b
    Example:
      towline apply -f fleet/ --dry-run
      towline apply -f fleet/ --prune-set fleet --max-deletions 5
      towline apply -f clusters.yaml -f services.yaml
    """
    api = connect(context)
    plan = operations.apply_manifests(
        api,
        fill_secret_values(api, read_sources(file)),
        options={
            "manager": manager,
            "dryRun": dry_run,
            "force": force,
            "pruneSet": prune_set or "",
            "maxDeletions": max_deletions,
        },
    )
    _print_plan(plan)


def diff(
    context: typer.Context, file: Files, force: Force = False, manager: Manager = "cli"
) -> None:
    """Show what `towline apply` would change. The exit code is 7 if anything would.

    \b
    Example:
      towline diff -f fleet/
    """
    api = connect(context)
    plan = operations.apply_manifests(
        api,
        fill_secret_values(api, read_sources(file)),
        options={"manager": manager, "dryRun": True, "force": force},
    )
    _print_plan(plan, changes_only=True)
    if any(item["action"] != "UNCHANGED" for item in plan["items"]):
        raise typer.Exit(FOUND)


def delete(context: typer.Context, file: Files, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete the resources that manifests name, all or none.

    \b
    Example:
      towline delete -f old-services.yaml --dry-run
    """
    api = connect(context)
    sources = fill_secret_values(api, read_sources(file), read=no_value)

    def deletions() -> Iterator[str]:
        plan = operations.delete_manifests(api, sources, dry_run=True)
        return (f"{item['kind']} {item['name']}" for item in plan["items"])

    if not dry_run:
        confirm_deletion(f"what {', '.join(map(str, file))} names", yes=yes, along=deletions)
    plan = operations.delete_manifests(api, sources, dry_run=dry_run)
    _print_plan(plan)


def export(
    context: typer.Context,
    kind: Annotated[
        list[str] | None, typer.Argument(help="Kinds, such as Service (default: all).")
    ] = None,
    show_managed_fields: Annotated[
        bool, typer.Option("--show-managed-fields", help="Add which manager has set which field.")
    ] = False,
) -> None:
    """Print resources as manifests, without values of secrets.

    \b
    Example:
      towline export > installation.yaml
      towline export Cluster Service
      towline export Service --show-managed-fields
    """
    api = connect(context)
    print(operations.manifests(api, kinds=kind or None, managed_fields=show_managed_fields), end="")


def schema(
    context: typer.Context,
    kind: Annotated[str | None, typer.Argument(help="Kind, such as Service.")] = None,
) -> None:
    """Print the JSON Schema of a kind of manifests, or list all kinds.

    \b
    Example:
      towline schema
      towline schema Service > service.schema.json
    """
    api = connect(context)
    if kind is None:
        print("\n".join(operations.manifest_kinds(api)))
        return
    print(json.dumps(json.loads(operations.manifest_schema(api, kind)), indent=2))


def explain(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="Kind or field, such as service.spec.helm.")],
) -> None:
    """Explain a kind of manifests, or one of its fields.

    \b
    Example:
      towline explain service.spec.helm
    """
    kind, *keys = path.split(".")
    schema = json.loads(operations.manifest_schema(connect(context), kind))
    field_schema, title, shared = schema, schema["title"], schema.get("$defs", {})
    for key in keys:
        properties = _object_schema(field_schema, shared).get("properties", {})
        if key not in properties:
            raise NotFound(f"{title} has no field {key!r}; use one of {', '.join(properties)}")
        field_schema, title = properties[key], f"{title}.{key}"
    print("\n".join(_explanation(title, field_schema, shared)))


def read_sources(paths: list[Path]) -> list["ManifestSource"]:
    """Reads files, and all manifests under folders. Invalid: one has no document, or is too
    large."""
    sources: list[ManifestSource] = []
    for path in paths:
        files: list[ManifestSource] = [
            {"file": str(file), "content": read_text(file, "--file", limit=MAX_BYTES)}
            for file in _files(path)
        ]
        if not any(map(_has_document, files)):
            raise Invalid(f"{path} contains no manifests", field="--file")
        sources += files
    return sources


def _has_document(source: "ManifestSource") -> bool:
    lines = (line.strip() for line in source["content"].splitlines())
    return any(line and not line.startswith(_NO_CONTENT) for line in lines)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    below = sorted(
        file.relative_to(path).as_posix()
        for file in path.rglob("*")
        if file.is_file() and not file.is_symlink()
    )
    return [path / name for name in below if is_manifest(PurePosixPath(name))]


def _print_plan(plan: Plan, *, changes_only: bool = False) -> None:
    """Prints a plan. Invalid: it has problems, and nothing was done."""
    items = plan["items"]
    if changes_only:
        items = [item for item in items if item["action"] != "UNCHANGED"]
    print_items(items, applied=plan["applied"])
    if plan["problems"]:
        raise Invalid("\n".join(["nothing was done:", *problem_lines(plan["problems"])]))


def _object_schema(schema: JsonObject, shared: JsonObject) -> JsonObject:
    """Returns the schema of the fields below: that of a list is that of its items."""
    if schema.get("type") == "array":
        return _object_schema(schema["items"], shared)
    if "$ref" in schema:
        return _object_schema(shared[schema["$ref"].rpartition("/")[2]], shared)
    if "oneOf" in schema:
        merged: JsonObject = {}
        for option in schema["oneOf"]:
            merged |= option.get("properties", {})
        return {"properties": merged}
    return schema


def _explanation(title: str, schema: JsonObject, shared: JsonObject) -> Iterator[str]:
    yield f"{title} <{_type_name(schema)}>"
    if schema.get("description"):
        yield f"  {schema['description']}"
    if "enum" in schema:
        yield f"  One of {', '.join(schema['enum'])}."
    object_schema = _object_schema(schema, shared)
    if object_schema.get("properties"):
        yield "\nFields:"
        for name, field in object_schema["properties"].items():
            needed = ", required" if name in object_schema.get("required", ()) else ""
            yield f"  {name} <{_type_name(field)}{needed}>"
            if field.get("description"):
                yield f"    {field['description']}"


def _type_name(schema: JsonObject) -> str:
    if schema.get("type") == "array":
        return f"[]{_type_name(schema['items'])}"
    if "const" in schema:
        return json.dumps(schema["const"])
    if str(schema.get("$ref", "")).endswith(f"/{SECRET}"):
        return "secret text"
    return str(schema.get("type", "object" if "oneOf" in schema or "$ref" in schema else "any"))
