"""Stage 2: authenticates the user and authorizes the request. Result: `AuthorizedRequest`."""
