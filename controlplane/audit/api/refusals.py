"""Audit rows for denied mutations: one row each."""

from collections.abc import Iterator, Mapping

from graphql import FieldNode, GraphQLError, OperationDefinitionNode, OperationType, VariableNode
from strawberry.extensions import SchemaExtension
from strawberry.types import ExecutionContext

from controlplane.audit.operations.audit_log import AuditLogOperations
from core.errors import Code

# NOT_FOUND can hide a denied read, so both are recorded.
_DENIED = frozenset({Code.FORBIDDEN.value, Code.NOT_FOUND.value})


class DenialAudit(SchemaExtension):
    """Records denials when an operation ends. It must wrap the extension that sets error codes."""

    def on_operation(self) -> Iterator[None]:
        yield
        execution = self.execution_context
        errors = execution.result.errors if execution.result else None
        if not errors or not _is_mutation(execution):
            return
        context = execution.context
        for error in errors:
            if (error.extensions or {}).get("code") in _DENIED and error.path:
                action, target = _denied_mutation(error, execution.variables or {})
                context[AuditLogOperations].record_refusal(
                    context.caller, action, target, context.request_id
                )


def _is_mutation(execution: ExecutionContext) -> bool:
    return any(
        isinstance(definition, OperationDefinitionNode)
        and definition.operation is OperationType.MUTATION
        for definition in (
            execution.graphql_document.definitions if execution.graphql_document else ()
        )
    )


def _denied_mutation(error: GraphQLError, variables: Mapping[str, object]) -> tuple[str, str]:
    """Returns the mutation and its ID argument, if any."""
    field = next((node for node in error.nodes or () if isinstance(node, FieldNode)), None)
    if field is None:
        return str((error.path or [""])[0])[:128], ""
    ids = [
        argument for argument in field.arguments or () if argument.name.value.lower().endswith("id")
    ]
    argument_value = ids[0].value if ids else None
    if isinstance(argument_value, VariableNode):
        return field.name.value[:128], str(variables.get(argument_value.name.value, ""))
    return field.name.value[:128], str(getattr(argument_value, "value", ""))
