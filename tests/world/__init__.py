"""Public packages rendered by Towline and by the tools of the field, compared object by object.

Nothing that is fetched is kept in the repository.
"""
