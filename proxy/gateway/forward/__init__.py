"""Stage 3: forwards the request to the agent, and the response to the user."""
