"""Names of GraphQL types, made from the names of Python classes."""

from typing import Any

from strawberry.schema.name_converter import NameConverter
from strawberry.types.base import StrawberryObjectDefinition, StrawberryType

_SUFFIX = "Type"


class PublishedNames(NameConverter):
    """Omits the suffix `Type`, which tells output classes from domain classes of the same name."""

    def from_object(self, object_type: StrawberryObjectDefinition) -> str:
        """Returns the published name of an object type or an input."""
        return super().from_object(object_type).removesuffix(_SUFFIX)

    def get_name_from_type(self, type_: StrawberryType | type[Any]) -> str:
        """Returns the name of a type argument, for names such as `ClusterConnection`."""
        return super().get_name_from_type(type_).removesuffix(_SUFFIX)
