"""Commands on secrets.

No decisions: commands parse options, call the API and print.
"""
