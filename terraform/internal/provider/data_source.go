package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/towline/terraform-provider-towline/internal/manifest"
	"github.com/towline/terraform-provider-towline/internal/values"
)

// manifestDataSource is the data source of one kind.
type manifestDataSource struct {
	kind *manifest.Kind
	*connection
}

var _ datasource.DataSourceWithConfigure = &manifestDataSource{}

func (d *manifestDataSource) Metadata(_ context.Context, request datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + d.kind.TypeName()
}

func (d *manifestDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = DataSourceSchema(d.kind)
}

// DataSourceSchema returns the attributes of the data source of a kind: all but secrets, and the
// status of a service.
func DataSourceSchema(kind *manifest.Kind) schema.Schema {
	attributes := map[string]schema.Attribute{
		idAttribute: schema.StringAttribute{Computed: true, Description: "Name in references."},
	}
	for _, field := range DataFields(kind) {
		attributes[field.Name] = dataAttribute(field)
	}
	for _, field := range kind.Metadata {
		if field.Required {
			attributes[field.Name] = schema.StringAttribute{Required: true, Description: field.Description}
		}
	}
	return schema.Schema{Description: kind.Description, Attributes: attributes}
}

// Readable returns fields without those that the control plane never returns.
func Readable(fields []manifest.Field) []manifest.Field {
	var found []manifest.Field
	for _, field := range fields {
		if !field.WriteOnly {
			field.Type = readableType(field.Type)
			found = append(found, field)
		}
	}
	return found
}

func readableType(given manifest.Type) manifest.Type {
	given.Fields = Readable(given.Fields)
	if given.Item != nil {
		item := readableType(*given.Item)
		given.Item = &item
	}
	return given
}

func (d *manifestDataSource) Configure(_ context.Context, request datasource.ConfigureRequest, response *datasource.ConfigureResponse) {
	d.connection, _ = request.ProviderData.(*connection)
}

func (d *manifestDataSource) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	if d.connection == nil {
		response.Diagnostics.AddError("Cannot read", "The settings of the provider are not known yet: apply the resources that they come from first.")
		return
	}
	var required []manifest.Field
	for _, field := range d.kind.Metadata {
		if field.Required {
			required = append(required, field)
		}
	}
	metadata, err := values.FieldsToManifest(required, request.Config.Raw)
	if err != nil {
		response.Diagnostics.Append(failed("Invalid configuration", err)...)
		return
	}
	key := d.kind.Key(metadata)
	document, err := d.client.Read(ctx, d.kind, key, true)
	if err != nil {
		response.Diagnostics.Append(failed(fmt.Sprintf("Cannot read %s %s", d.kind.Name, key), err)...)
		return
	}
	readable := &manifest.Kind{
		Name: d.kind.Name, Metadata: Readable(d.kind.Metadata), Spec: Readable(d.kind.Spec),
	}
	if d.kind.Name == serviceKind {
		status, err := d.client.ServiceStatus(ctx, metadata)
		if err != nil {
			response.Diagnostics.Append(failed(fmt.Sprintf("Cannot read the status of %s", key), err)...)
			return
		}
		readable.Spec = append(readable.Spec, serviceStatus)
		if document.Spec == nil {
			document.Spec = map[string]any{}
		}
		document.Spec[serviceStatus.Key] = status
	}
	document.Kind = readable
	attributes, err := attributesFrom(document, values.Attributes(request.Config.Raw))
	if err != nil {
		response.Diagnostics.Append(failed(fmt.Sprintf("Cannot read %s %s", d.kind.Name, key), err)...)
		return
	}
	response.State.Raw = tftypes.NewValue(request.Config.Raw.Type(), attributes)
}
