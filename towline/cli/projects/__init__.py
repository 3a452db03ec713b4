"""Commands on projects.

No decisions: commands parse options, call the API and print.
"""
