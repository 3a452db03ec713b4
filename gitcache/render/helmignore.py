"""Files that `.helmignore` leaves out of a chart, by the rules of Helm
(https://helm.sh/docs/chart_template_guide/helm_ignore_file/).
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from core.errors import Invalid

HELMIGNORE = ".helmignore"
_DEFAULT = "templates/.?*"

_Rule = Callable[[str, bool], bool]
"""Returns whether a path is ignored. The second argument: it is a folder."""


def without_ignored(files: Mapping[str, bytes], text: bytes) -> Mapping[str, bytes]:
    """Returns the files of a chart, given by their path in it, that its `.helmignore` keeps.

    Only the `text` of the file at the top counts, and it covers the subcharts. Raises Invalid for
    rules that Helm refuses.
    """
    rules = _parse_rules(text.decode("utf-8-sig", "replace"))
    return {path: data for path, data in files.items() if not _is_ignored(path, rules)}


def _is_ignored(path: str, rules: list[_Rule]) -> bool:
    folders = [str(folder) for folder in PurePosixPath(path).parents[:-1]]
    return any(
        rule(candidate, candidate != path)
        for candidate in (*reversed(folders), path)
        for rule in rules
    )


def _parse_rules(text: str) -> list[_Rule]:
    lines = [line.strip() for line in text.splitlines()]
    patterns = [line for line in lines if line and not line.startswith("#")]
    if any("**" in line for line in patterns):
        raise Invalid(
            f"{HELMIGNORE}: Helm does not support `**`: name each level, such as `*/*.txt`"
        )
    if "!" in patterns:
        raise Invalid(f"{HELMIGNORE}: a rule is only `!`: write what it keeps, such as `!*.yaml`")
    return [_parse_rule(line) for line in (*patterns, _DEFAULT)]


def _parse_rule(line: str) -> _Rule:
    # A rule with `!` ignores all that it does not match.
    negated, pattern = line.startswith("!"), line.removeprefix("!")
    only_folders, pattern = pattern.endswith("/"), pattern.removesuffix("/")
    by_path = "/" in pattern
    levels = pattern.removeprefix("/").replace("[^", "[!").split("/")

    def ignores(path: str, is_folder: bool) -> bool:
        if only_folders and not is_folder:
            return negated
        names = path.split("/") if by_path else path.split("/")[-1:]
        return negated != _matches(names, levels)

    return ignores


def _matches(names: list[str], levels: list[str]) -> bool:
    return len(names) == len(levels) and all(map(fnmatchcase, names, levels))
