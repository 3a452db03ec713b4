"""Commands on pipelines and recorded sessions.

No decisions: commands parse options, call the API and print.
"""
