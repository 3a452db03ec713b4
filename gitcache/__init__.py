"""The git cache: follows repositories, renders folders and stores the results by tree id.

No GraphQL, users or clusters here: the git cache only answers the control plane.
"""
