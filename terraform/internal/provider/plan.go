package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/towline/terraform-provider-towline/internal/api"
	"github.com/towline/terraform-provider-towline/internal/manifest"
	"github.com/towline/terraform-provider-towline/internal/values"
)

// mask is the value of a secret in plans of the control plane.
const mask = `"********"`

// ModifyPlan asks the control plane for its plan, so that each problem of an apply is already one of
// the plan.
func (r *manifestResource) ModifyPlan(ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	if r.connection == nil {
		return
	}
	if request.Plan.Raw.IsNull() {
		response.Diagnostics.Append(r.planDeletion(ctx, request.State.Raw)...)
		return
	}
	planned := values.Attributes(request.Plan.Raw)
	r.planComputed(planned, request)
	replaced := r.replacedBy(request)
	response.RequiresReplace = append(response.RequiresReplace, replaced...)
	document, err := r.document(request.Config.Raw, request.Plan.Raw)
	switch {
	case err != nil && !errors.Is(err, values.ErrUnknown):
		response.Diagnostics.Append(failed("Invalid configuration", err)...)
	case err != nil:
		r.planUnknown(request, planned)
	case len(replaced) > 0:
		r.plans.replace(document)
	case r.isSettled(request, document):
	default:
		response.Diagnostics.Append(r.planApply(ctx, request, document, planned)...)
	}
	response.Plan.Raw = tftypes.NewValue(request.Plan.Raw.Type(), planned)
}

// planComputed sets the computed attributes whose values are known before the apply.
func (r *manifestResource) planComputed(planned map[string]tftypes.Value, request resource.ModifyPlanRequest) {
	metadata := map[string]any{}
	for _, field := range r.kind.Metadata {
		if value, err := values.ToManifest(field.Type, planned[field.Name]); err == nil {
			metadata[field.Key] = value
		} else if field.Immutable {
			return
		}
	}
	planned[idAttribute] = tftypes.NewValue(tftypes.String, r.kind.Key(metadata))
	if r.kind.HasSecrets() {
		revision := integer(request.State.Raw, revisionAttribute)
		if request.State.Raw.IsNull() && values.HasSecrets(r.kind.Spec, request.Config.Raw) {
			revision = 1
		}
		planned[revisionAttribute] = tftypes.NewValue(tftypes.Number, revision)
	}
}

// planUnknown leaves the revision open if secrets may change.
func (r *manifestResource) planUnknown(request resource.ModifyPlanRequest, planned map[string]tftypes.Value) {
	if r.kind.HasSecrets() {
		planned[revisionAttribute] = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
	}
	if !request.State.Raw.IsNull() {
		return
	}
	// Others may mention the new resource: they are planned with what is known of it.
	metadata, err := values.FieldsToManifest(r.kind.Metadata, request.Plan.Raw)
	if err == nil {
		spec := values.KnownToManifest(r.kind.Spec, request.Config.Raw)
		r.plans.create(&manifest.Document{Kind: r.kind, Metadata: metadata, Spec: spec})
	}
}

// replacedBy returns the attributes whose change needs a new resource.
func (r *manifestResource) replacedBy(request resource.ModifyPlanRequest) path.Paths {
	if request.State.Raw.IsNull() {
		return nil
	}
	var found path.Paths
	before, after := values.Attributes(request.State.Raw), values.Attributes(request.Plan.Raw)
	for _, field := range r.kind.Fields() {
		// An attribute that leaves the configuration keeps the value of the resource.
		if field.Immutable && !after[field.Name].IsNull() && !before[field.Name].Equal(after[field.Name]) {
			found = append(found, path.Root(field.Name))
		}
	}
	return found
}

// isSettled returns whether there is nothing to ask: no attribute changes, and there are no secrets,
// whose changes only the control plane can tell.
func (r *manifestResource) isSettled(request resource.ModifyPlanRequest, document *manifest.Document) bool {
	if request.State.Raw.IsNull() {
		return r.plans.isReplaced(document)
	}
	return request.Plan.Raw.Equal(request.State.Raw) && !values.HasSecrets(r.kind.Spec, request.Config.Raw)
}

// planApply runs the apply without carrying it out.
func (r *manifestResource) planApply(
	ctx context.Context, request resource.ModifyPlanRequest, document *manifest.Document, planned map[string]tftypes.Value,
) diag.Diagnostics {
	isNew := request.State.Raw.IsNull()
	if isNew {
		r.plans.create(document)
	}
	options := api.Options{Manager: r.manager, DryRun: true, Force: boolean(request.Config.Raw, forceAttribute)}
	plan, err := r.client.Apply(ctx, r.plans.with(document), options)
	if err != nil {
		return failed("Cannot plan "+document.Title(), err)
	}
	item := itemOf(document, plan)
	if isNew && item != nil && item.Action != "CREATE" {
		text := fmt.Sprintf("%s exists already. Import it: terraform import towline_%s.NAME %s",
			document.Title(), r.kind.TypeName(), document.Key())
		return diag.Diagnostics{diag.NewAttributeErrorDiagnostic(path.Root("name"), "Resource exists already", text)}
	}
	if !isNew && item != nil && changesSecrets(item) {
		revision := integer(request.State.Raw, revisionAttribute) + 1
		planned[revisionAttribute] = tftypes.NewValue(tftypes.Number, revision)
	}
	return problemDiagnostics(document, plan)
}

// planDeletion reports a missing permission. Other reasons may disappear with resources that the
// same run deletes first.
func (r *manifestResource) planDeletion(ctx context.Context, state tftypes.Value) diag.Diagnostics {
	document, err := r.identity(state)
	if err != nil {
		return failed("Invalid state", err)
	}
	plan, err := r.client.Delete(ctx, document, true)
	if err != nil {
		return failed("Cannot plan the deletion of "+document.Title(), err)
	}
	forbidden := &api.Plan{}
	for _, problem := range plan.Problems {
		if problem.Code == "FORBIDDEN" {
			forbidden.Problems = append(forbidden.Problems, problem)
		}
	}
	return problemDiagnostics(document, forbidden)
}

func changesSecrets(item *api.Item) bool {
	for _, change := range item.Changes {
		if change.After != nil && *change.After == mask {
			return true
		}
	}
	return false
}
