"""All access to git: listing refs, bare clones, reading objects, credentials.

Nothing here knows services, rendering or webhooks; no other package starts git processes.
"""
