"""Users, groups, roles, tokens and sign-in.

No resource of other nouns: `ResourceDirectory` finds those.
"""
