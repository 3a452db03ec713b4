"""Follows git repositories, keys folders by their trees, renders them and keeps the results.

No GraphQL, no users and no clusters here: the control plane asks, this room answers.
"""
