package provider

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/towline/terraform-provider-towline/internal/api"
	"github.com/towline/terraform-provider-towline/internal/manifest"
	"github.com/towline/terraform-provider-towline/internal/values"
)

// Attributes of a resource that are not fields of its manifest.
const (
	idAttribute       = "id"
	forceAttribute    = "force_conflicts"
	revisionAttribute = "secrets_revision"
)

const (
	deletionTimeout = 10 * time.Minute
	deletionPause   = 2 * time.Second
)

// manifestResource is the resource of one kind.
type manifestResource struct {
	kind *manifest.Kind
	*connection
}

var (
	_ resource.ResourceWithConfigure   = &manifestResource{}
	_ resource.ResourceWithImportState = &manifestResource{}
	_ resource.ResourceWithModifyPlan  = &manifestResource{}
)

func (r *manifestResource) Metadata(_ context.Context, request resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + r.kind.TypeName()
}

func (r *manifestResource) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = ResourceSchema(r.kind)
}

// ResourceSchema returns the attributes of the resource of a kind.
func ResourceSchema(kind *manifest.Kind) schema.Schema {
	attributes := resourceAttributes(kind.Fields())
	attributes[idAttribute] = schema.StringAttribute{
		Computed: true, Description: "Name in references, as `terraform import` takes it.",
	}
	attributes[forceAttribute] = schema.BoolAttribute{
		Optional: true, Description: "True takes over fields that other managers own. Default: false.",
	}
	if kind.HasSecrets() {
		attributes[revisionAttribute] = schema.Int64Attribute{
			Computed: true, Description: "Number of applies that sent changed write-only attributes.",
		}
	}
	return schema.Schema{Description: kind.Description, Attributes: attributes}
}

func (r *manifestResource) Configure(_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse) {
	r.connection, _ = request.ProviderData.(*connection)
}

func (r *manifestResource) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	response.Diagnostics.Append(r.apply(ctx, request.Config.Raw, request.Plan.Raw)...)
	if !response.Diagnostics.HasError() {
		response.State.Raw = settled(request.Plan.Raw, 1)
	}
}

func (r *manifestResource) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	response.Diagnostics.Append(r.apply(ctx, request.Config.Raw, request.Plan.Raw)...)
	if !response.Diagnostics.HasError() {
		before := integer(request.State.Raw, revisionAttribute)
		response.State.Raw = settled(request.Plan.Raw, before+1)
	}
}

// apply sends the configuration, because only it has the write-only values.
func (r *manifestResource) apply(ctx context.Context, config, plan tftypes.Value) diag.Diagnostics {
	document, err := r.document(config, plan)
	if err != nil {
		return failed("Invalid configuration", err)
	}
	options := api.Options{Manager: r.manager, Force: boolean(config, forceAttribute)}
	result, err := r.client.Apply(ctx, []*manifest.Document{document}, options)
	if err != nil {
		return failed("Cannot apply "+document.Title(), err)
	}
	if result.Applied {
		r.plans.forget(document)
	}
	return problemDiagnostics(document, result)
}

// settled returns the state after an apply: the plan, without what it left open.
func settled(plan tftypes.Value, revision int64) tftypes.Value {
	attributes := values.Attributes(plan)
	if value, exists := attributes[revisionAttribute]; exists && !value.IsKnown() {
		attributes[revisionAttribute] = tftypes.NewValue(tftypes.Number, revision)
	}
	return tftypes.NewValue(plan.Type(), attributes)
}

func (r *manifestResource) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	if r.connection == nil {
		return
	}
	state := request.State.Raw
	key, err := r.key(state)
	if err != nil {
		response.Diagnostics.Append(failed("Invalid state", err)...)
		return
	}
	document, err := r.client.Read(ctx, r.kind, key, true)
	if api.IsNotFound(err) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		response.Diagnostics.Append(failed(fmt.Sprintf("Cannot read %s %s", r.kind.Name, key), err)...)
		return
	}
	refreshed, err := r.refreshed(state, document)
	if err != nil {
		response.Diagnostics.Append(failed(fmt.Sprintf("Cannot read %s %s", r.kind.Name, key), err)...)
		return
	}
	response.State.Raw = refreshed
}

func (r *manifestResource) refreshed(state tftypes.Value, document *manifest.Document) (tftypes.Value, error) {
	attributes := values.Attributes(state)
	for _, part := range partsOf(document) {
		for _, field := range part.fields {
			value, err := values.Refresh(field.Type, attributes[field.Name], part.values[field.Key])
			if err != nil {
				return state, fmt.Errorf("%s: %w", field.Name, err)
			}
			attributes[field.Name] = value
		}
	}
	return tftypes.NewValue(state.Type(), attributes), nil
}

func (r *manifestResource) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	document, err := r.identity(request.State.Raw)
	if err != nil {
		response.Diagnostics.Append(failed("Invalid state", err)...)
		return
	}
	result, err := r.client.Delete(ctx, document, false)
	if err != nil {
		response.Diagnostics.Append(failed("Cannot delete "+document.Title(), err)...)
		return
	}
	response.Diagnostics.Append(problemDiagnostics(document, result)...)
	if response.Diagnostics.HasError() {
		return
	}
	if err := r.waitUntilGone(ctx, document); err != nil {
		response.Diagnostics.Append(failed("Deletion is not finished", err)...)
	}
}

// waitUntilGone waits for an agent that still removes objects: dependencies are deleted afterwards.
func (r *manifestResource) waitUntilGone(ctx context.Context, document *manifest.Document) error {
	deadline := time.Now().Add(deletionTimeout)
	for {
		_, err := r.client.Read(ctx, document.Kind, document.Key(), false)
		if api.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not removed within %s: check that the agent of its cluster is connected, then destroy again",
				document.Title(), deletionTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(deletionPause):
		}
	}
}

func (r *manifestResource) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	if r.connection == nil {
		response.Diagnostics.AddError("Cannot import", "The settings of the provider are not known yet: apply the resources that they come from first.")
		return
	}
	if _, err := r.kind.MetadataOf(request.ID); err != nil {
		response.Diagnostics.Append(failed("Invalid name", err)...)
		return
	}
	document, err := r.client.Read(ctx, r.kind, request.ID, false)
	if err != nil {
		response.Diagnostics.Append(failed(fmt.Sprintf("Cannot import %s %s", r.kind.Name, request.ID), err)...)
		return
	}
	spec := manifest.Type{Shape: manifest.Object, Fields: r.kind.Spec}
	document.Spec, _ = values.Compact(spec, document.Spec).(map[string]any)
	attributes, err := attributesFrom(document, values.Attributes(response.State.Raw))
	if err != nil {
		response.Diagnostics.Append(failed(fmt.Sprintf("Cannot import %s %s", r.kind.Name, request.ID), err)...)
		return
	}
	if _, exists := attributes[revisionAttribute]; exists {
		attributes[revisionAttribute] = tftypes.NewValue(tftypes.Number, 0)
	}
	response.State.Raw = tftypes.NewValue(response.State.Raw.Type(), attributes)
}

// document returns the manifest of a configuration. The plan has the default of the name.
func (r *manifestResource) document(config, plan tftypes.Value) (*manifest.Document, error) {
	metadata, err := values.FieldsToManifest(r.kind.Metadata, plan)
	if err != nil {
		return nil, err
	}
	spec, err := values.FieldsToManifest(r.kind.Spec, config)
	if err != nil {
		return nil, err
	}
	return &manifest.Document{Kind: r.kind, Metadata: metadata, Spec: spec}, nil
}

// identity returns a document with the metadata alone.
func (r *manifestResource) identity(state tftypes.Value) (*manifest.Document, error) {
	metadata, err := values.FieldsToManifest(r.kind.Metadata, state)
	return &manifest.Document{Kind: r.kind, Metadata: metadata}, err
}

func (r *manifestResource) key(state tftypes.Value) (string, error) {
	document, err := r.identity(state)
	if err != nil {
		return "", err
	}
	return document.Key(), nil
}

// documentPart is a part of a document with the fields that it can have.
type documentPart struct {
	fields []manifest.Field
	values map[string]any
}

func partsOf(document *manifest.Document) []documentPart {
	return []documentPart{
		{document.Kind.Metadata, document.Metadata}, {document.Kind.Spec, document.Spec},
	}
}

// attributesFrom returns attributes with all fields of a document.
func attributesFrom(document *manifest.Document, attributes map[string]tftypes.Value) (map[string]tftypes.Value, error) {
	for _, part := range partsOf(document) {
		for _, field := range part.fields {
			if field.WriteOnly {
				continue
			}
			value, err := values.FromManifest(field.Type, part.values[field.Key])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", field.Name, err)
			}
			attributes[field.Name] = value
		}
	}
	attributes[idAttribute] = tftypes.NewValue(tftypes.String, document.Key())
	return attributes, nil
}

func boolean(object tftypes.Value, name string) bool {
	var found bool
	value := values.Attributes(object)[name]
	return value.IsKnown() && !value.IsNull() && value.As(&found) == nil && found
}

func integer(object tftypes.Value, name string) int64 {
	value, exists := values.Attributes(object)[name]
	if !exists || !value.IsKnown() || value.IsNull() {
		return 0
	}
	var number *big.Float
	if value.As(&number) != nil {
		return 0
	}
	whole, _ := number.Int64()
	return whole
}

func failed(summary string, err error) diag.Diagnostics {
	var unknown *api.Error
	detail := err.Error()
	if errors.As(err, &unknown) && unknown.Code == "FORBIDDEN" {
		detail += ". Give the owner of the token a role that permits it."
	}
	return diag.Diagnostics{diag.NewErrorDiagnostic(summary, sentence(detail))}
}
