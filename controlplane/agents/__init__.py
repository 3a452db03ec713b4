"""Agents: their connections, reports, jobs and bundles.

Translates between the wire and operations; the agent's own code is `syncagent`.
"""
