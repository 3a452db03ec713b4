package provider

import "github.com/towline/terraform-provider-towline/internal/manifest"

// serviceKind is the kind whose data source has a status: no manifest contains it.
const serviceKind = "Service"

var serviceStatus = manifest.Field{
	Name: "status", Key: "status", Description: "State of the service when Terraform read it.",
	Type: manifest.Type{Shape: manifest.Object, Fields: []manifest.Field{
		{Name: "state", Key: "state", Description: "State, such as `HEALTHY` or `FAILED`."},
		{Name: "sha", Key: "sha", Description: "Desired commit. Null before the first render."},
		{Name: "message", Key: "message", Description: "Present activity of the agent. Null without one."},
		{Name: "errors", Key: "errors", Description: "Problems, rendering first.", Type: manifest.Type{
			Shape: manifest.List, Item: &manifest.Type{Shape: manifest.Object, Fields: []manifest.Field{
				{Name: "source", Key: "source", Description: "Step that failed, such as `render` or `apply`."},
				{Name: "reason", Key: "reason", Description: "Reason for programs, such as `NOT_FOUND`."},
				{Name: "message", Key: "message", Description: "Human-readable message."},
				{
					Name: "lasting", Key: "lasting", Type: manifest.Type{Shape: manifest.Boolean},
					Description: "True if every retry fails until a user changes something.",
				},
			}},
		}},
	}},
}

// DataFields returns the fields that the data source of a kind has.
func DataFields(kind *manifest.Kind) []manifest.Field {
	fields := Readable(kind.Fields())
	if kind.Name == serviceKind {
		fields = append(fields, serviceStatus)
	}
	return fields
}
