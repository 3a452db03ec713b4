"""Code shared by the four parts of Towline: wire, tunnel frames, errors, identities, runtime.

Nothing here may know GraphQL, SQL, git, Kubernetes or Redis, or import one of the four parts.
"""

__version__ = "0.1.0"
