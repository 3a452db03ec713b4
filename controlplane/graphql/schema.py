"""The schema and its limits. `python -m controlplane.graphql.schema` prints it."""

from typing import Any

import strawberry
import structlog
from graphql import GraphQLError
from graphql.error import GraphQLSyntaxError
from strawberry.extensions import (
    AddValidationRules,
    MaskErrors,
    MaxTokensLimiter,
    ParserCache,
    ValidationCache,
    max_aliases,
    query_depth_limiter,
)
from strawberry.schema.config import StrawberryConfig

from controlplane.graphql.mutation import Mutation
from controlplane.graphql.query import Query
from controlplane.graphql.scalars import SCALARS
from controlplane.graphql.subscription import Subscription
from fleet.errors import Code, TowlineError

log = structlog.get_logger(__name__)

MOST_TOKENS = 5_000
MOST_ALIASES = 30
DEEPEST = 15

# Made once: the validation cache is keyed by the very rules.
_RULES: list[Any] = [
    query_depth_limiter.create_validator(DEEPEST, should_ignore=None),
    max_aliases.create_validator(MOST_ALIASES),
]


class CodedErrors(MaskErrors):
    """Gives each error a code and a message for people; hides whatever was not meant for them."""

    def __init__(self) -> None:
        super().__init__(should_mask_error=lambda _: True)

    def anonymise_error(self, error: GraphQLError) -> GraphQLError:
        cause = error.original_error
        if isinstance(cause, TowlineError):
            return _coded(error, cause.code, cause.message)
        if cause is None or isinstance(error, GraphQLSyntaxError):
            return _coded(error, Code.INVALID, error.message)
        return _coded(error, Code.INTERNAL, "something went wrong here; the log has the details")


class Schema(strawberry.Schema):
    """Logs only what is nobody's mistake but ours."""

    def process_errors(self, errors: list[GraphQLError], execution_context: Any = None) -> None:
        for error in errors:
            cause = error.original_error
            if cause is not None and not isinstance(cause, TowlineError | GraphQLError):
                log.error("resolver failed", path=str(error.path), exc_info=cause)


def _coded(error: GraphQLError, code: Code, message: str) -> GraphQLError:
    return GraphQLError(
        message=message,
        nodes=error.nodes,
        source=error.source,
        positions=error.positions,
        path=error.path,
        extensions={"code": code.value},
    )


schema = Schema(
    query=Query,
    mutation=Mutation,
    subscription=Subscription,
    config=StrawberryConfig(scalar_map=SCALARS, disable_field_suggestions=True),
    extensions=[
        CodedErrors,
        lambda: MaxTokensLimiter(max_token_count=MOST_TOKENS),
        lambda: ParserCache(maxsize=500),
        lambda: ValidationCache(maxsize=500),
        lambda: AddValidationRules(_RULES),
    ],
)

if __name__ == "__main__":
    print(schema.as_str())
