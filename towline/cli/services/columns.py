"""Columns of lists of services."""

from towline.cli.services.find import label
from towline.cli.services.generated import Service, ServiceRow
from towline.cli.services.reasons import problem_in_list, status_text
from towline.cli.shell.output import Column, age_column, field, short

ROW_COLUMNS: tuple[Column[ServiceRow], ...] = (
    Column("SERVICE", label),
    Column("STATUS", status_text),
    Column("COMMIT", lambda row: short(row["sha"])),
    field("FOLLOWS"),
    age_column("LAST SEEN", "cluster", "pingedAt"),
    Column("PROBLEM", problem_in_list),
)
COLUMNS: tuple[Column[Service], ...] = (
    *ROW_COLUMNS,
    field("PROJECT", "project", "name", wide=True),
    field("NAMESPACE", wide=True),
    field("REPOSITORY", "repository", "url", wide=True),
    field("FOLDER", "git", "folder", wide=True),
    field("SUBJECT", "revision", "subject", wide=True),
)
