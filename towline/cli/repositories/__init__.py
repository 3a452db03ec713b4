"""Commands on Git and Helm repositories.

No decisions: commands parse options, call the API and print.
"""
