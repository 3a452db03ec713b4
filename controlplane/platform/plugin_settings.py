"""Plug-ins, and their settings: frozen dataclasses with title and limits in the annotations.

API inputs, JSON Schema, manifests and forms are derived from these fields. The string below a field
is its published description.
"""

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from controlplane.platform.limits import check_count, check_length, check_range
from controlplane.platform.names import check_text
from controlplane.platform.parts import default_of
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject

MAX_NAME = 255
MAX_LINE = 2_000
MAX_TEXT = 10_000


class Form(StrEnum):
    """Meaning of a text, which selects its input in forms and its source in manifests."""

    TEXT = "text"
    MULTILINE = "multiline"
    URL = "uri"
    CLUSTER = "cluster"
    """ID of a cluster. Manifests have its handle."""
    REPOSITORY = "repository"
    """ID of a repository. Manifests and commands have its URL."""
    SERVICE_ACCOUNT = "serviceAccount"
    """ID of a service account."""
    SECRET = "secret"
    """Secret, stored encrypted and never returned. Manifests name its source."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Title and limits of one field. `example` fills a new form; `name` replaces the field's name
    outside the code. `unit` is the unit of the limits.
    """

    title: str
    minimum: int | None = None
    maximum: int | None = None
    max_length: int = MAX_TEXT
    max_items: int | None = None
    unit: str = ""
    form: Form = Form.TEXT
    name: str = ""
    example: object = None
    """None: forms leave the field empty."""


PluginKinds = Mapping[str, Mapping[str, type["Plugin"]]]
"""Kinds by family and name."""


class Plugin:
    """One kind of something, such as a gate. A subclass is a dataclass of the kind's settings."""

    family: ClassVar[str]
    """Name of the something."""
    kind: ClassVar[str]
    """Name in the API and in manifests."""
    title: ClassVar[str]
    """Name in forms."""
    key: ClassVar[str] = ""
    """Field that has the settings. Empty: the settings stand beside the kind."""
    destinations: ClassVar[Collection[str]] = ()
    """Fields that tell who receives the secrets of the plug-in."""

    def check(self, field: str) -> None:
        """Raises Invalid for settings that can never work."""
        path = f"{field}.{self.key}" if self.key else field
        check_limits(self, path)
        self.check_together(path)

    def check_together(self, field: str) -> None:
        """Raises Invalid for settings that do not fit together."""

    @classmethod
    def summary(cls) -> str:
        """Returns the first paragraph of the docstring, which the API and forms show."""
        return inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("\n", " ")

    @classmethod
    def example(cls) -> JsonObject:
        """Returns the settings of a new form, by their published names."""
        examples = {
            field.published: field.setting.example
            for field in setting_fields(cls)
            if field.setting.example is not None
        }
        return {cls.key: examples} if cls.key else examples

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Stores a plug-in with its kind. Decoding needs the kinds by family as the context."""
        if is_dataclass(cls):
            return handler(source)
        return core_schema.with_info_plain_validator_function(
            cls._decode, serialization=core_schema.plain_serializer_function_ser_schema(_encode)
        )

    @classmethod
    def _decode(cls, value: JsonMapping, info: ValidationInfo[PluginKinds]) -> "Plugin":
        kind = info.context[cls.family][value["kind"]]
        return _adapter(kind).validate_python(value, context=info.context)


class SettingField(NamedTuple):
    """One field of a settings class; `type` has neither its `Setting` nor `None`."""

    name: str
    public_name: str
    """Name outside the code, in snake case."""
    type: Any
    setting: Setting
    default: object

    @property
    def published(self) -> str:
        return camel(self.public_name)

    @property
    def required(self) -> bool:
        return self.default is MISSING


@cache
def setting_fields(settings: type[Any]) -> tuple[SettingField, ...]:
    """Returns the fields of a settings class that users set, the inherited ones last."""
    hints = get_type_hints(settings, include_extras=True)
    return tuple(
        SettingField(
            member.name,
            setting.name or member.name,
            _without_annotations(hints[member.name]),
            setting,
            default_of(member),
        )
        for member in sorted(fields(settings), key=lambda m: m.name not in settings.__annotations__)
        for setting in _settings_of_hint(hints[member.name])
    )


def check_limits(settings: object, field: str) -> None:
    """Raises Invalid, naming the field, for a value outside its limits."""
    for member in setting_fields(type(settings)):
        value = getattr(settings, member.name)
        # A secret is encrypted here, and longer than the text that the user gave.
        if value != member.default and member.setting.form is not Form.SECRET:
            _check_value(member, value, f"{field}.{member.published}")


def camel(name: str) -> str:
    """Returns the published form of a Python name."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _check_value(member: SettingField, value: object, field: str) -> None:
    setting = member.setting
    if isinstance(value, tuple):
        if setting.max_items is not None:
            check_count(len(value), field, setting.max_items)
        for item in value:
            if isinstance(item, str):
                check_text(item, field, setting.max_length)
    elif isinstance(value, str):
        _check_text(setting, value, field, required=member.required)
    elif isinstance(value, int | float):
        if setting.minimum is not None and setting.maximum is not None:
            check_range(value, field, setting.minimum, setting.maximum, setting.unit)


def _check_text(setting: Setting, value: str, field: str, *, required: bool) -> None:
    check_length(value, field, setting.max_length)
    if required or setting.form is Form.URL:
        check_text(value, field, setting.max_length)
    if setting.form is Form.URL and not value.startswith(("https://", "http://")):
        raise Invalid("must be an http or https URL", field=field)


def _settings_of_hint(hint: Any) -> Iterator[Setting]:
    if get_origin(hint) is Annotated:
        yield from (extra for extra in hint.__metadata__ if isinstance(extra, Setting))


def _without_annotations(hint: Any) -> object:
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(inner) in (Union, UnionType):
        return next(part for part in get_args(inner) if part is not type(None))
    return inner


@cache
def _adapter(kind: type[Plugin]) -> TypeAdapter[Plugin]:
    return TypeAdapter(kind)


def _encode(plugin: Plugin) -> JsonObject:
    return {"kind": plugin.kind, **_adapter(type(plugin)).dump_python(plugin, mode="json")}
