"""Extracts prose from sources into Markdown, line by line, for the prose linter.

Line N of a Markdown file is line N of its source, so that a finding needs no translation.
The first line of each description starts with §; a rule looks for openings there.
"""

import ast
import re
from collections.abc import Iterator

MARK = "§ "
# At least three words that could be a sentence: no SQL, no query, no pattern, no path.
_MESSAGE = re.compile(r"^[^{}\\<>*=_/]*[a-z,:;]+ [a-z]+ [a-z]+[^{}\\<>*=_/]*$")
_PRAGMA = re.compile(r"# (?:ty:|type:|noqa|ruff:|pragma)")
_SHOWN = re.compile(
    r"""(?x)
    (?:(?<=>)(?=[^<>{}=;]*[a-z][ ][a-z])[^<>{}=;]+(?=<))
    | (?<=title=")[^"]+ | (?<=label=")[^"]+ | (?<=placeholder=")[^"]+ | (?<=hint=")[^"]+
    | (?<=")[A-Z][a-z]+[ ][^"<>{}=;]+(?=")
    """
)


def python_docs(source: str) -> str:
    """The docstrings, comments and messages of a Python file."""
    lines = source.splitlines()
    out = [_comment(line) for line in lines]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not out[node.lineno - 1] and _MESSAGE.search(node.value):
                out[node.lineno - 1] = " ".join(node.value.split())
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for number, text in _docstring(node, lines):
                out[number] = text
    return "\n".join(out)


def schema_docs(source: str) -> str:
    """The descriptions of a GraphQL schema, between triple quotes."""
    out, inside = [], False
    for line in source.splitlines():
        quotes = line.count('"""')
        opens = bool(quotes) and not inside
        text = line.replace('"""', "").strip() if inside or quotes else ""
        out.append(_marked(text) if opens and text else text)
        inside = inside != (quotes == 1)
    return "\n".join(_mark_after_blank(out))


def help_texts(page: str) -> str:
    """The help texts of docs/reference/cli.md: descriptions of commands, options and arguments."""
    out, inside = [], False
    for line in page.splitlines():
        if line.startswith("```"):
            inside = line != "```"
            out.append("")
        elif not inside:
            out.append(line)
        else:
            out.append(_help_text(line))
    return "\n".join(out)


def console_texts(source: str) -> str:
    """The texts of a page of the console: between tags, and in attributes that people read."""
    found = ([text.strip() for text in _SHOWN.findall(line)] for line in source.splitlines())
    return "\n".join(" / ".join(MARK + text for text in texts) for texts in found)


def _comment(line: str) -> str:
    """A comment on a line of its own, without pragmas."""
    text = line.strip()
    return text[2:] if text.startswith("# ") and not _PRAGMA.match(text) else ""


def _docstring(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, str]]:
    body = getattr(node, "body", [])
    first = body[0] if body else None
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return
    if not isinstance(first.value.value, str) or first.end_lineno is None:
        return
    for number in range(first.lineno - 1, first.end_lineno):
        text = lines[number].strip().removeprefix("r").replace('"""', "").strip()
        yield number, _marked(text) if number == first.lineno - 1 and text else text


def _mark_after_blank(lines: list[str]) -> Iterator[str]:
    """Mark the first line of descriptions whose quotes stand on a line of their own."""
    before = ""
    for line in lines:
        yield _marked(line) if line and not before else line
        before = line


def _marked(text: str) -> str:
    return text if text.startswith(MARK) else MARK + text


def _help_text(line: str) -> str:
    """The description in a line of help output; options and usage are no prose."""
    if line.startswith("Usage:") or re.fullmatch(r" *[A-Z][a-z]+:", line):
        return ""
    described = re.match(r" +(?:-\w, )?(?:--)?[\w\[\]|.-]+.*? {2,}(\S.*)$", line)
    if described:
        return MARK + described[1]
    continued = re.match(r" {2}(\S.*)$", line)
    if continued and not continued[1].startswith("-"):
        return continued[1]
    return line.strip() if re.match(r" {10,}\S", line) else ""
