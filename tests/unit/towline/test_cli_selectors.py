"""Selectors of lists, by the words of kubectl."""

import pytest

from core.errors import Invalid
from tests.fakes.api import FakeApi
from towline.cli.services import generated as service_api
from towline.cli.shell.selectors import fields_of, tags_of


def test_a_selector_names_several_tags() -> None:
    assert tags_of(None) is None
    assert tags_of("env=prod,region=eu") == [
        {"name": "env", "value": "prod"},
        {"name": "region", "value": "eu"},
    ]
    with pytest.raises(Invalid, match="'env' is not key=value"):
        tags_of("env")


def test_a_field_has_one_of_several_values() -> None:
    known = ("status", "health")
    assert fields_of(None, known) == {}
    assert fields_of("status=FAILED,status=DRIFTED", known) == {"status": ["FAILED", "DRIFTED"]}
    with pytest.raises(Invalid, match="unknown field 'name'; known: health, status"):
        fields_of("name=x", known)


def test_a_table_asks_only_for_its_columns() -> None:
    """A list of 3,000 services took a second more."""
    assert len(service_api.SERVICE_ROWS) < len(service_api.SERVICES) / 2
    api = FakeApi(
        {
            service_api.SERVICE_ROWS: {
                "serviceDeployments": {"edges": [], "pageInfo": {"hasNextPage": False}}
            }
        }
    )
    assert list(service_api.service_rows(api, status=["FAILED"])) == []
