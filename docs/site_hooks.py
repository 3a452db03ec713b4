"""Hooks of MkDocs: the site carries the repository's files that pages link to.

A page links to a test or a chart by a path that leads out of `docs/`. Such a file is copied below
`files/`, and the link is rewritten. A link to a missing file stays, and MkDocs reports it. The JSON
Schemas of manifests are below `schemas/`.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.editor_schemas import editor_schemas

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)(?:#[^)\s]*)?(?=\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the linked files and the schemas; MkDocs copies them and resolves links to them."""
    pages = [file for file in files if file.is_documentation_page()]
    for path in {path for page in pages for path in _outside(page)}:
        files.append(
            File.generated(config, f"files/{path}.txt", content=(_ROOT / path).read_text())
        )
    for path, text in editor_schemas().items():
        files.append(File.generated(config, f"schemas/{path}", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Rewrite links that lead out of `docs/`."""
    folder = PurePosixPath(page.file.src_uri).parent.as_posix()

    def rewrite(link: re.Match[str]) -> str:
        path = _repository_path(page.file.src_uri, link[1])
        return relpath(f"files/{path}.txt", folder) if path else link[0]

    return _LINK.sub(rewrite, markdown)


def _outside(page: File) -> list[str]:
    links = _LINK.findall(page.content_string)
    return [path for link in links if (path := _repository_path(page.src_uri, link))]


def _repository_path(page: str, link: str) -> str:
    """The path of a linked file outside `docs/`, or an empty text."""
    path = normpath(f"docs/{PurePosixPath(page).parent}/{link}")
    outside = not path.startswith(("docs/", "../"))
    return path if outside and (_ROOT / path).is_file() else ""
