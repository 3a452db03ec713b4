"""Group of commands that names its own word for the one of kubectl or of Argo CD."""

from typing import Any

from typer.core import TyperGroup

from towline.completion.candidates import known_commands

_WORDS = {
    **dict.fromkeys(("app", "apps", "application", "applications", "svc"), "services"),
    **dict.fromkeys(("appset", "applicationset", "applicationsets"), "sets"),
    **dict.fromkeys(("ctx", "context", "config"), "contexts"),
    **dict.fromkeys(("proj", "appproject"), "projects"),
    **dict.fromkeys(("account", "accounts"), "users"),
    **dict.fromkeys(("ls", "ps"), "list"),
    **dict.fromkeys(("describe", "show", "info", "status"), "get"),
    **dict.fromkeys(("rm", "remove", "destroy"), "delete"),
    **dict.fromkeys(("add", "new"), "create"),
    **dict.fromkeys(("edit", "set", "patch"), "update"),
    **dict.fromkeys(("refresh", "reconcile"), "sync"),
    **dict.fromkeys(("undo", "revert"), "rollback"),
}
"""Words of other tools, with the command here. A group without the command gives no hint."""
_KUBECTL = frozenset(
    (
        *("annotate", "attach", "autoscale", "cordon", "cp", "debug", "describe", "drain", "edit"),
        *("expose", "patch", "rollout", "run", "scale", "taint", "uncordon"),
    )
)
_DIFF_HINT = "A service and its cluster are compared by `towline services diff"
_MAX_HINTS = 3
_KUBECTL_HINT = (
    "kubectl has it: `towline kubeconfig --all --merge` gives kubectl your clusters, and "
    "`towline ui` has actions on objects."
)


class HintedGroup(TyperGroup):
    """Group whose error for an unknown command names the right one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and (hint := self._hint(ctx, args[0])):
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        if ctx.parent is None and args[:1] == ["diff"] and args[1:] and args[1][:1] != "-":
            ctx.fail(f"{args[0]!r} compares files: add -f FILE. {_DIFF_HINT} {args[1]}`.")
        return super().resolve_command(ctx, args)

    def _hint(self, ctx: Any, word: str) -> str:
        if ctx.parent is None and word in _KUBECTL:
            return _KUBECTL_HINT
        hint = _WORDS.get(word)
        if hint in self.commands:
            return f"Did you mean {hint!r}?"
        return _hint_of_groups(word, hint) if ctx.parent is None else ""


def _hint_of_groups(*words: str | None) -> str:
    """Names the groups that have a command; for an unknown command without its group."""
    groups = known_commands()["commands"]
    matching = [
        f"'{group} {word}'"
        for word in words
        for group in sorted(groups, key=lambda name: (name != "services", name))
        if word in groups[group]["commands"]
    ]
    return f"Did you mean {' or '.join(matching[:_MAX_HINTS])}?" if matching else ""
