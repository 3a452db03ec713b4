"""Writes the page of hostile tenants: `python -m tests.integration.tenants.table`."""

from pathlib import Path

from tests.integration.tenants.corpus import Escape, Second, allowed, escapes
from tests.integration.tenants.crossings import crossings

PAGE = Path(__file__).parents[3] / "docs/reference/tenant-escapes.md"
_HEAD = """# Escapes from a fence

Each row is a test: a folder of a [fenced project](../how-to/tenants.md) that reaches out of its
fence. The control plane refuses it after the render, and names the file, the object and the rule.
The second refusal is what is left of a control plane that checks nothing and sends no rules:

| second refusal | meaning |
|---|---|
| API server: 403 | the account of the fence has no such right: the server's own audit log says so |
| agent | the agent refuses what is no object of the API, before any write |
| `autonomy.sources` | the account limits the objects; only signed sources tell their origin |

`python -m tests.integration.tenants.table` writes this page.
"""
_CROSSINGS = """
## Operations

Each row is a test: an operation of a tenant that reaches into the project or the namespace of
others, through previews, contexts, secrets, moved resources, pipelines or jobs. The control plane
refuses the operation. If it refused none, the account of the fence would get an object in the
namespace of others: the API server answers 403, as its own audit log says. The same holds for a
service that gets another fence while it is applied, pruned or removed.

| operation | control plane |
|---|---|
"""
_ALLOWED = """
## No escapes

Kubernetes itself allows these inside a namespace, and so does a fence. The last column says what
limits them.

| attempt | limit |
|---|---|
"""


def page() -> str:
    """The whole page."""
    rows = "\n".join(_row(escape) for escape in escapes())
    inside = "\n".join(f"| {case.name} | {case.limit} |" for case in allowed())
    crossed = "\n".join(f"| {case.name} | …{case.first}… |" for case in crossings())
    return (
        f"{_HEAD}\n| attempt | control plane | second refusal |\n|---|---|---|\n{rows}\n"
        f"{_CROSSINGS}{crossed}\n{_ALLOWED}{inside}\n"
    )


def _row(escape: Escape) -> str:
    first = escape.note or f"…{escape.first}…"
    second = {
        Second.SERVER: "API server: 403",
        Second.AGENT: "agent",
        Second.SOURCES: "`autonomy.sources`",
    }
    return f"| {escape.name} | {first} | {second[escape.second]} |"


if __name__ == "__main__":
    PAGE.write_text(page())
