"""The agent's process from start to end."""

from collections.abc import Mapping

from fleet.errors import Invalid
from fleet.runtime.process import stop_on_signal
from syncagent import compose
from syncagent.settings import from_environment


async def run(environ: Mapping[str, str]) -> None:
    """Run an agent until SIGTERM or SIGINT. Invalid: its settings cannot work."""
    try:
        settings = from_environment(environ)
    except OSError as error:
        raise Invalid(f"{error.filename} cannot be read: {error.strerror}") from None
    agent = compose.build(settings)
    async with stop_on_signal() as stop:
        await agent.run(stop)
