"""Plans of manifests as lines."""

from collections.abc import Sequence

from towline.cli.manifests.generated import PlanItem, PlanProblem
from towline.cli.shell.output import colour

_SIGNS = {"CREATE": "+", "UPDATE": "~", "DELETE": "-", "UNCHANGED": "="}
_DONE = {"CREATE": "created", "UPDATE": "changed", "DELETE": "deleted", "UNCHANGED": "unchanged"}
_COLOURS = {"+": "green", "~": "yellow", "-": "red"}


def print_items(items: Sequence[PlanItem], *, applied: bool) -> None:
    """Prints each effect, with the fields that change."""
    for item in items:
        action = item["action"]
        sign, done = _SIGNS[action], _DONE[action]
        words = done if action == "UNCHANGED" or applied else f"would be {done}"
        print(colour(f"{sign} {item['kind']} {item['name']} {words}", _COLOURS.get(sign)))
        if action == "UPDATE":
            owners = {conflict["path"]: conflict["owner"] for conflict in item["conflicts"]}
            for change in item["changes"]:
                before, after = change["before"] or "(none)", change["after"] or "(none)"
                owner = owners.get(change["path"])
                by = f" (set by {owner})" if owner else ""
                print(colour(f"  {change['path']}: {before} → {after}{by}"))


def problem_lines(problems: Sequence[PlanProblem]) -> list[str]:
    """Returns one line for each problem, with file and line."""
    return [_problem_line(problem) for problem in problems]


def _problem_line(problem: PlanProblem) -> str:
    location = f"{problem['file']}:{problem['line']}: " if problem["file"] else ""
    subject = " ".join(name for name in (problem["document"], problem["field"]) if name)
    return f"  {location}{subject}{': ' if subject else ''}{problem['message']}"
