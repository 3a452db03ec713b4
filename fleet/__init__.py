"""What the four parts of Towline share: the wire, the tunnel's frames, errors, identities, runtime.

Nothing here may know GraphQL, SQL, git, Kubernetes or Redis, or import one of the four parts.
"""

__version__ = "0.1.0"
