"""Options of several commands: groups, which are one parameter, and options added to a command."""

import inspect
from collections.abc import Callable, Iterator
from functools import wraps


class OptionGroup:
    """Options of a command, as annotated attributes; the value of an attribute is its default.

    No dataclass: `towline --help` imports all groups, and a dataclass takes 1 ms to create.
    """

    def __init__(self, **values: object) -> None:
        vars(self).update(values)

    @classmethod
    def parameters(cls) -> Iterator[inspect.Parameter]:
        """Parameters for the options, in the order of the attributes."""
        for name, annotation in cls.__annotations__.items():
            default = getattr(cls, name, inspect.Parameter.empty)
            yield inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Lets a command take option groups.

    Each option of a group takes the place of the parameter.
    """
    given = inspect.signature(command).parameters.values()
    groups = {
        parameter.name: parameter.annotation
        for parameter in given
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, OptionGroup)
    }
    parameters: list[inspect.Parameter] = []
    for parameter in given:
        if group := groups.get(parameter.name):
            parameters += group.parameters()
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**values: object) -> None:
        group_values = {
            name: group(**{option: values.pop(option) for option in group.__annotations__})
            for name, group in groups.items()
        }
        command(**values, **group_values)

    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def with_flag(
    run: Callable[..., None], command: Callable[..., None], name: str, annotation: object
) -> Callable[..., None]:
    """Gives `run` the options of a command and one flag more, which is off by default."""
    flag = inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation
    )
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command).parameters.values()
    ]
    vars(run)["__signature__"] = inspect.Signature([*parameters, flag])
    run.__annotations__ = {**command.__annotations__, name: annotation}
    return run
