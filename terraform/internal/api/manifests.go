package api

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/towline/terraform-provider-towline/internal/manifest"
)

// Plan lists the effects of an apply, or the reasons for which it does nothing.
type Plan struct {
	Applied  bool      `json:"applied"`
	Items    []Item    `json:"items"`
	Problems []Problem `json:"problems"`
}

// Item is the effect on one resource.
type Item struct {
	Action    string     `json:"action"`
	Kind      string     `json:"kind"`
	Name      string     `json:"name"`
	Changes   []Change   `json:"changes"`
	Conflicts []Conflict `json:"conflicts"`
}

// Change is a field that changes. Values of secrets are masked.
type Change struct {
	Path string `json:"path"`
	// After is the new value as JSON.
	After *string `json:"after"`
}

// Conflict is a field that another manager has set to another value.
type Conflict struct {
	Path  string `json:"path"`
	Owner string `json:"owner"`
}

// Problem is a reason for which a plan cannot be carried out.
type Problem struct {
	Message  string `json:"message"`
	Document string `json:"document"`
	Field    string `json:"field"`
	Code     string `json:"code"`
}

// Options are the options of an apply.
type Options struct {
	Manager string
	DryRun  bool
	Force   bool
}

const selection = `{ applied
  items { action kind name changes { path after } conflicts { path owner } }
  problems { message document field code } }`

const applyQuery = `mutation Apply($sources: [ManifestSource!]!, $options: ManifestApplyOptions) {
  plan: applyManifests(sources: $sources, options: $options) ` + selection + ` }`

const deleteQuery = `mutation Delete($sources: [ManifestSource!]!, $dryRun: Boolean!) {
  plan: deleteManifests(sources: $sources, dryRun: $dryRun) ` + selection + ` }`

const readQuery = `query Read($kind: String!, $name: String!, $defaults: Boolean!) {
  manifest(kind: $kind, name: $name, defaults: $defaults) }`

const statusQuery = `query Status($cluster: String!, $name: String!) {
  service: serviceDeployment(cluster: $cluster, name: $name) {
    state sha message errors { source reason message lasting } } }`

// Apply creates and changes resources until they match the documents, all or none.
func (c *Client) Apply(ctx context.Context, documents []*manifest.Document, options Options) (*Plan, error) {
	given := map[string]any{
		"manager": options.Manager, "dryRun": options.DryRun, "force": options.Force,
	}
	return c.plan(ctx, applyQuery, documents, map[string]any{"options": given})
}

// Delete deletes the resources that documents name. A resource that is gone is no problem.
func (c *Client) Delete(ctx context.Context, document *manifest.Document, dryRun bool) (*Plan, error) {
	named := &manifest.Document{Kind: document.Kind, Metadata: document.Metadata}
	return c.plan(ctx, deleteQuery, []*manifest.Document{named}, map[string]any{"dryRun": dryRun})
}

func (c *Client) plan(
	ctx context.Context, query string, documents []*manifest.Document, variables map[string]any,
) (*Plan, error) {
	var sources []map[string]string
	for _, document := range documents {
		text, err := document.Text()
		if err != nil {
			return nil, err
		}
		sources = append(sources, map[string]string{"file": document.Title(), "content": text})
	}
	variables["sources"] = sources
	var data struct {
		Plan Plan `json:"plan"`
	}
	err := c.call(ctx, query, variables, &data)
	return &data.Plan, err
}

// Read returns a resource. Without defaults, it has only the fields that differ from them. An error
// for which IsNotFound is true: the resource does not exist, or the caller may not read it.
func (c *Client) Read(
	ctx context.Context, kind *manifest.Kind, key string, defaults bool,
) (*manifest.Document, error) {
	var data struct {
		Manifest string `json:"manifest"`
	}
	variables := map[string]any{"kind": kind.Name, "name": key, "defaults": defaults}
	if err := c.call(ctx, readQuery, variables, &data); err != nil {
		return nil, err
	}
	var found struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	decoder := json.NewDecoder(strings.NewReader(data.Manifest))
	decoder.UseNumber()
	if err := decoder.Decode(&found); err != nil {
		return nil, err
	}
	return &manifest.Document{Kind: kind, Metadata: found.Metadata, Spec: found.Spec}, nil
}

// ServiceStatus returns the status of the service that the metadata of its manifest names.
func (c *Client) ServiceStatus(ctx context.Context, metadata map[string]any) (map[string]any, error) {
	var data struct {
		Service map[string]any `json:"service"`
	}
	variables := map[string]any{"cluster": metadata["cluster"], "name": metadata["name"]}
	err := c.call(ctx, statusQuery, variables, &data)
	return data.Service, err
}
