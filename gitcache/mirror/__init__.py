"""The only door to git: listing refs, bare clones, reading objects, credentials for both.

Nothing here knows services, rendering or webhooks; nothing outside starts a git process.
"""
