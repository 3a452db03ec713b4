"""Commands on saved views, and the filters of views in other lists.

No decisions: commands parse options, call the API and print.
"""
