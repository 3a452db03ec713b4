"""Commands on Git, Helm and OCI repositories.

No decisions: commands parse options, call the API and print.
"""
