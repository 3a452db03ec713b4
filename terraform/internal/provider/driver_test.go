package provider

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/towline/terraform-provider-towline/internal/manifest"
	"github.com/towline/terraform-provider-towline/internal/values"
)

// driver speaks the plug-in protocol to the provider, as Terraform does.
type driver struct {
	t      *testing.T
	server tfprotov6.ProviderServer
	schema *tfprotov6.GetProviderSchemaResponse
}

// attributes are the attributes of a configuration that are not null.
type attributes map[string]tftypes.Value

func text(value string) tftypes.Value { return tftypes.NewValue(tftypes.String, value) }

func newDriver(t *testing.T, url string) *driver {
	t.Helper()
	kinds, err := manifest.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	server, err := providerserver.NewProtocol6WithError(New("test", kinds)())()
	if err != nil {
		t.Fatal(err)
	}
	schema, err := server.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t, server, schema}
	d.ok(schema.Diagnostics)
	config := d.object(schema.Provider, attributes{"url": text(url), "token": text("t0ken")})
	answer, err := server.ConfigureProvider(context.Background(), &tfprotov6.ConfigureProviderRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	d.ok(answer.Diagnostics)
	return d
}

func (d *driver) ok(found []*tfprotov6.Diagnostic) {
	d.t.Helper()
	for _, diagnostic := range found {
		d.t.Fatalf("%s: %s (%v)", diagnostic.Summary, diagnostic.Detail, diagnostic.Attribute)
	}
}

func (d *driver) typeOf(name string) tftypes.Type {
	return d.schema.ResourceSchemas[name].ValueType()
}

func (d *driver) object(schema *tfprotov6.Schema, given attributes) *tfprotov6.DynamicValue {
	d.t.Helper()
	found := values.Attributes(tftypes.NewValue(schema.ValueType(), nil))
	for name, value := range given {
		found[name] = value
	}
	return d.dynamic(tftypes.NewValue(schema.ValueType(), found))
}

func (d *driver) dynamic(value tftypes.Value) *tfprotov6.DynamicValue {
	d.t.Helper()
	found, err := tfprotov6.NewDynamicValue(value.Type(), value)
	if err != nil {
		d.t.Fatal(err)
	}
	return &found
}

func (d *driver) value(name string, given *tfprotov6.DynamicValue) tftypes.Value {
	d.t.Helper()
	found, err := given.Unmarshal(d.typeOf(name))
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

func (d *driver) none(name string) *tfprotov6.DynamicValue {
	return d.dynamic(tftypes.NewValue(d.typeOf(name), nil))
}

// plan plans a configuration. Terraform proposes the configuration, with computed attributes as they
// were, and without write-only values.
func (d *driver) plan(name string, prior *tfprotov6.DynamicValue, given attributes) *tfprotov6.PlanResourceChangeResponse {
	d.t.Helper()
	before := values.Attributes(d.value(name, prior))
	proposed := attributes{}
	for key, value := range given {
		proposed[key] = value
	}
	for _, attribute := range d.schema.ResourceSchemas[name].Block.Attributes {
		if attribute.WriteOnly {
			delete(proposed, attribute.Name)
		}
		if _, set := given[attribute.Name]; attribute.Computed && !set {
			proposed[attribute.Name] = before[attribute.Name]
		}
	}
	schema := d.schema.ResourceSchemas[name]
	answer, err := d.server.PlanResourceChange(context.Background(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: name, PriorState: prior, Config: d.object(schema, given), ProposedNewState: d.object(schema, proposed),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return answer
}

// apply plans and carries out a configuration, and returns the new state.
func (d *driver) apply(name string, prior *tfprotov6.DynamicValue, given attributes) *tfprotov6.DynamicValue {
	d.t.Helper()
	plan := d.plan(name, prior, given)
	d.ok(plan.Diagnostics)
	answer, err := d.server.ApplyResourceChange(context.Background(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: name, PriorState: prior, PlannedState: plan.PlannedState,
		Config: d.object(d.schema.ResourceSchemas[name], given), PlannedPrivate: plan.PlannedPrivate,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.ok(answer.Diagnostics)
	return answer.NewState
}

func (d *driver) destroy(name string, state *tfprotov6.DynamicValue) []*tfprotov6.Diagnostic {
	d.t.Helper()
	answer, err := d.server.ApplyResourceChange(context.Background(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: name, PriorState: state, PlannedState: d.none(name), Config: d.none(name),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.Diagnostics
}

func (d *driver) planDestroy(name string, state *tfprotov6.DynamicValue) []*tfprotov6.Diagnostic {
	d.t.Helper()
	answer, err := d.server.PlanResourceChange(context.Background(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: name, PriorState: state, Config: d.none(name), ProposedNewState: d.none(name),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.Diagnostics
}

func (d *driver) read(name string, state *tfprotov6.DynamicValue) *tfprotov6.ReadResourceResponse {
	d.t.Helper()
	answer, err := d.server.ReadResource(context.Background(), &tfprotov6.ReadResourceRequest{
		TypeName: name, CurrentState: state,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return answer
}

// data reads a data source, and returns its attributes.
func (d *driver) data(name string, given attributes) map[string]tftypes.Value {
	d.t.Helper()
	schema := d.schema.DataSourceSchemas[name]
	answer, err := d.server.ReadDataSource(context.Background(), &tfprotov6.ReadDataSourceRequest{
		TypeName: name, Config: d.object(schema, given),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.ok(answer.Diagnostics)
	found, err := answer.State.Unmarshal(schema.ValueType())
	if err != nil {
		d.t.Fatal(err)
	}
	return values.Attributes(found)
}

func (d *driver) importState(name, id string) *tfprotov6.ImportResourceStateResponse {
	d.t.Helper()
	answer, err := d.server.ImportResourceState(context.Background(), &tfprotov6.ImportResourceStateRequest{
		TypeName: name, ID: id,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return answer
}

// attribute returns an attribute of a state as text: "null" if it is null.
func (d *driver) attribute(resource string, state *tfprotov6.DynamicValue, name string) string {
	d.t.Helper()
	value := values.Attributes(d.value(resource, state))[name]
	if value.IsNull() {
		return "null"
	}
	if !value.IsKnown() {
		return "unknown"
	}
	var found string
	if value.Type().Is(tftypes.Number) {
		return strings.Trim(value.String(), "tftypes.Number<>\"")
	}
	if err := value.As(&found); err != nil {
		d.t.Fatal(err)
	}
	return found
}
