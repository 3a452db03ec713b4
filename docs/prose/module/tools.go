//go:build tools

// Package tools pins the prose linter for `go build`.
package tools

import _ "github.com/vale-cli/vale/v3/cmd/vale"
