"""Commands on clusters and their agents.

No decisions: commands parse options, call the API and print.
"""
