"""Commands on cluster sources.

No decisions: commands parse options, call the API and print.
"""
