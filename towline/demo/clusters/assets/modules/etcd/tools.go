//go:build tools

// Package etcd pins the version of the store below the API server.
package etcd

import _ "go.etcd.io/etcd/server/v3"
