"""Commands on clusters, their groups and agents.

No decisions: commands parse options, call the API and print.
"""
