"""Protocol version 1: `*.proto` and the stubs that `make proto` generates from them."""
