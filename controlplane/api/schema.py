"""The schema and its limits. `python -m controlplane.api.schema` prints it."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import strawberry
import structlog
from graphql import GraphQLEnumType, GraphQLError, MaxIntrospectionDepthRule
from strawberry.extensions import (
    AddValidationRules,
    MaskErrors,
    MaxTokensLimiter,
    ParserCache,
    ValidationCache,
)
from strawberry.schema.config import StrawberryConfig
from strawberry.schema.name_converter import NameConverter
from strawberry.types import ExecutionContext
from strawberry.types import ExecutionResult as StrawberryResult
from strawberry.types.base import StrawberryObjectDefinition, StrawberryType
from strawberry.types.graphql import OperationType

from controlplane.api.mutation import Mutation
from controlplane.api.query import Query
from controlplane.api.subscription import Subscription
from controlplane.audit.api.refusals import DenialAudit
from controlplane.authorization import require_member, without_doubt
from controlplane.platform.graphql.descriptions import describe
from controlplane.platform.graphql.execution import FastExecution
from controlplane.platform.graphql.input_errors import without_input
from controlplane.platform.graphql.limits import (
    MAX_TOKENS,
    DocumentSize,
    StorableStrings,
    check_cost,
    check_values,
    has_introspection,
)
from controlplane.platform.graphql.scalars import SCALARS
from core.errors import Code, Conflict, Forbidden, TowlineError
from core.json_object import JsonObject

log = structlog.get_logger(__name__)

_MAX_CACHED_LENGTH = 10_000
_SUFFIX = "Type"
_UNKNOWN_ENUM_VALUE = re.compile(r"not a value of (\w+)")

# A constant, since the validation cache uses these objects as its key.
_RULES: list[Any] = [MaxIntrospectionDepthRule, StorableStrings]


class PublishedNames(NameConverter):
    """Omits the suffix `Type`, which tells output classes from domain classes of the same name."""

    def from_object(self, object_type: StrawberryObjectDefinition) -> str:
        """Returns the published name of an object type or an input."""
        return super().from_object(object_type).removesuffix(_SUFFIX)

    def get_name_from_type(self, type_: StrawberryType | type[Any]) -> str:
        """Returns the name of a type argument, for names such as `ClusterConnection`."""
        return super().get_name_from_type(type_).removesuffix(_SUFFIX)


class CodedErrors(MaskErrors):
    """Sets a code and a human-readable message on each error; hides internal errors."""

    def __init__(self) -> None:
        super().__init__(should_mask_error=lambda _: True)

    def anonymise_error(self, error: GraphQLError) -> GraphQLError:
        cause = _original_error(error)
        if isinstance(cause, TowlineError):
            cause = without_doubt(self.execution_context.context.caller, cause)
            current = cause.current if isinstance(cause, Conflict) else {}
            more = {"current": dict(current)} if current else {}
            return _with_code(error, cause.code, cause.message, **more)
        if cause is None and (error.original_error is None or error.path is None):
            return _with_code(error, Code.INVALID, self._with_enum_values(error.message))
        message = "internal error; search the log of the control plane for this requestId"
        id = self.execution_context.context.request_id
        return _with_code(error, Code.INTERNAL, message, requestId=id)

    def _with_enum_values(self, message: str) -> str:
        """Adds the values of an enum to a message about an unknown value.

        Suggestions of similar names are removed where introspection is disabled.
        """
        if not self.execution_context.context.backend.introspection:
            message = message.partition(" Did you mean")[0]
        message = without_input(message)
        wrong = _UNKNOWN_ENUM_VALUE.search(message)
        kind = self.execution_context.schema._schema.get_type(wrong[1]) if wrong else None
        if not isinstance(kind, GraphQLEnumType):
            return message
        return f"{message}: use {', '.join(kind.values)}"


class MemberParserCache(ParserCache):
    """Caches short parsed documents of members.

    The schema reports documents that cannot be parsed.
    """

    def on_parse(self) -> Iterator[None]:
        execution = self.execution_context
        with suppress(GraphQLError, TowlineError):
            require_member(execution.context.actor)
            if _is_cacheable(execution):
                next(super().on_parse())
        yield


class DocumentAdmission(ValidationCache):
    """Admits only documents of members, within the limits, to validation and execution.

    Operations still check each permission. An anonymous document costs one parse and reveals
    nothing about the schema or about valid inputs.
    """

    def on_validate(self) -> Iterator[None]:
        execution = self.execution_context
        try:
            _check_admitted(execution)
        except TowlineError as error:
            refusal = GraphQLError(error.message, original_error=error)
            execution.pre_execution_errors = [refusal]
        else:
            if _is_cacheable(execution):
                next(super().on_validate())
        yield


class Schema(strawberry.Schema):
    """Logs internal errors only; runs subscriptions only through `stream`."""

    _is_described = False

    def describe(self) -> None:
        """Adds the descriptions, which only readers of the schema need: parsing takes 0.1 s."""
        if not self._is_described:
            describe(self._schema)
            self._is_described = True

    def as_str(self) -> str:
        """Prints the schema in GraphQL's schema definition language."""
        self.describe()
        return super().as_str()

    def introspect(self) -> JsonObject:
        """Returns the result of the full introspection query."""
        self.describe()
        return super().introspect()

    async def execute(self, query: str | None, *args: Any, **kwargs: Any) -> StrawberryResult:
        """Executes a query or a mutation. InvalidOperationTypeError: a subscription."""
        allowed = kwargs.pop("allowed_operation_types", None) or set(OperationType)
        allowed = set(allowed) - {OperationType.SUBSCRIPTION}
        return await super().execute(query, *args, allowed_operation_types=allowed, **kwargs)

    def process_errors(self, errors: list[GraphQLError], execution_context: Any = None) -> None:
        request_id = execution_context.context.request_id
        for error in errors:
            cause = _original_error(error)
            if cause is not None and not isinstance(cause, TowlineError):
                path = str(error.path)
                log.error("resolver failed", path=path, request_id=request_id, exc_info=cause)


def _check_admitted(execution: ExecutionContext) -> None:
    """Raises the reason for a document that is not admitted."""
    require_member(execution.context.actor)
    document = execution.graphql_document
    if document is not None:
        DocumentSize(document).check()
        variables = execution.variables or {}
        check_cost(execution.schema._schema, document, variables)
        if has_introspection(document):
            if not execution.context.backend.introspection:
                raise Forbidden("introspection is disabled here; read schema.graphql instead")
            cast("Schema", execution.schema).describe()
    for name, value in (execution.variables or {}).items():
        check_values(value, name)


def _is_cacheable(execution: ExecutionContext) -> bool:
    return len(execution.query or "") <= _MAX_CACHED_LENGTH


def _original_error(error: GraphQLError) -> Exception | None:
    """Returns the original exception inside the wrappers of graphql-core."""
    cause = error.original_error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    return cause


def _with_code(error: GraphQLError, code: Code, message: str, **extensions: object) -> GraphQLError:
    return GraphQLError(
        message=message,
        nodes=error.nodes,
        source=error.source,
        positions=error.positions,
        path=error.path,
        extensions={"code": code.value, **extensions},
    )


schema = Schema(
    query=Query,
    mutation=Mutation,
    subscription=Subscription,
    execution_context_class=FastExecution,
    config=StrawberryConfig(scalar_map=SCALARS, name_converter=PublishedNames()),
    extensions=[
        DenialAudit,
        CodedErrors,
        lambda: MaxTokensLimiter(max_token_count=MAX_TOKENS),
        lambda: MemberParserCache(maxsize=500),
        lambda: DocumentAdmission(maxsize=500),
        lambda: AddValidationRules(_RULES),
    ],
)

if __name__ == "__main__":
    print(schema.as_str())
