"""Output formats, by the words of `kubectl -o`."""

from typing import Annotated

import typer

CUSTOM_COLUMNS, JSONPATH = "custom-columns", "jsonpath"


class Format(str):
    """Output format; those with a template have it after `=`."""

    WORDS = ("table", "wide", "json", "yaml", "name", f"{CUSTOM_COLUMNS}=", f"{JSONPATH}=")
    TABLE: "Format"
    WIDE: "Format"
    JSON: "Format"
    YAML: "Format"
    NAME: "Format"

    @property
    def is_table(self) -> bool:
        """Reports whether people read the output."""
        return self in (Format.TABLE, Format.WIDE)

    @property
    def kind(self) -> str:
        """Format without its template."""
        return self.partition("=")[0]

    @property
    def template(self) -> str:
        return self.partition("=")[2]


Format.TABLE, Format.WIDE = Format("table"), Format("wide")
Format.JSON, Format.YAML, Format.NAME = Format("json"), Format("yaml"), Format("name")


def parse_format(text: str) -> Format:
    """Parses the value of `--output`."""
    form = Format(text)
    needs_template = f"{form.kind}=" in Format.WORDS
    if (form.kind not in Format.WORDS and not needs_template) or needs_template is not bool(
        form.template
    ):
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(Format.WORDS)}")
    return form


Output = Annotated[
    Format,
    typer.Option(
        "-o",
        "--output",
        parser=parse_format,
        metavar="FORMAT",
        help="Output format: table, wide, json, yaml, name, custom-columns=TITLE:.path,… or "
        "jsonpath={.path}.",
    ),
]
