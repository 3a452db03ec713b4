"""Commands on users, groups, roles, tokens and sign-in.

No decisions: commands parse options, call the API and print.
"""
