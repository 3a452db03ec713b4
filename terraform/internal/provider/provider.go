// Package provider is the Terraform provider of Towline: a resource and a data source for each kind
// of manifests.
package provider

import (
	"context"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/towline/terraform-provider-towline/internal/api"
	"github.com/towline/terraform-provider-towline/internal/manifest"
)

// DefaultManager is the name under which Terraform owns fields.
const DefaultManager = "terraform"

// Settings are the attributes of the provider.
type Settings struct {
	URL     types.String `tfsdk:"url"`
	Token   types.String `tfsdk:"token"`
	CAFile  types.String `tfsdk:"ca_file"`
	Manager types.String `tfsdk:"manager"`
}

type towlineProvider struct {
	version string
	kinds   []manifest.Kind
}

// New returns a constructor of the provider for kinds.
func New(version string, kinds []manifest.Kind) func() provider.Provider {
	return func() provider.Provider { return &towlineProvider{version, kinds} }
}

func (p *towlineProvider) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName = "towline"
	response.Version = p.version
}

// Schema returns the attributes of the provider.
func (p *towlineProvider) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	response.Schema = SettingsSchema()
}

// SettingsSchema returns the attributes of the provider.
func SettingsSchema() schema.Schema {
	return schema.Schema{
		Description: "Declares resources of a Towline control plane.",
		Attributes: map[string]schema.Attribute{
			"url": schema.StringAttribute{
				Optional:    true,
				Description: "Address of the control plane, such as `https://towline.example.org`. Default: the variable `TOWLINE_URL`.",
			},
			"token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "Access token. Default: the variable `TOWLINE_TOKEN`.",
			},
			"ca_file": schema.StringAttribute{
				Optional:    true,
				Description: "File of the CA certificates to trust (PEM). Default: the variable `TOWLINE_CA_FILE`, then the CAs of the system.",
			},
			"manager": schema.StringAttribute{
				Optional:    true,
				Description: "Name under which the fields are owned. Give each configuration that shares resources with another one its own name. Default: `terraform`.",
			},
		},
	}
}

func (p *towlineProvider) Configure(ctx context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var given Settings
	response.Diagnostics.Append(request.Config.Get(ctx, &given)...)
	if response.Diagnostics.HasError() {
		return
	}
	if given.URL.IsUnknown() || given.Token.IsUnknown() || given.CAFile.IsUnknown() {
		// Another resource sets them: Terraform configures the provider again before it applies.
		return
	}
	settings := api.Settings{
		URL:     orVariable(given.URL, "TOWLINE_URL"),
		Token:   orVariable(given.Token, "TOWLINE_TOKEN"),
		CAFile:  orVariable(given.CAFile, "TOWLINE_CA_FILE"),
		Version: p.version,
	}
	if settings.URL == "" {
		response.Diagnostics.AddAttributeError(path.Root("url"), "No control plane",
			"The address of the control plane is missing: set url, or the variable TOWLINE_URL.")
	}
	if settings.Token == "" {
		response.Diagnostics.AddAttributeError(path.Root("token"), "No access token",
			"The access token is missing: create one with `towline tokens create terraform`, then set the variable TOWLINE_TOKEN.")
	}
	if response.Diagnostics.HasError() {
		return
	}
	client, err := api.NewClient(settings)
	if err != nil {
		response.Diagnostics.AddError("Invalid settings of the provider", sentence(err.Error()))
		return
	}
	manager := DefaultManager
	if name := given.Manager.ValueString(); name != "" {
		manager = name
	}
	connection := &connection{client: client, manager: manager, plans: newPlannedDocuments()}
	response.ResourceData, response.DataSourceData = connection, connection
}

func (p *towlineProvider) Resources(context.Context) []func() resource.Resource {
	var found []func() resource.Resource
	for n := range p.kinds {
		kind := &p.kinds[n]
		found = append(found, func() resource.Resource { return &manifestResource{kind: kind} })
	}
	return found
}

func (p *towlineProvider) DataSources(context.Context) []func() datasource.DataSource {
	var found []func() datasource.DataSource
	for n := range p.kinds {
		kind := &p.kinds[n]
		found = append(found, func() datasource.DataSource { return &manifestDataSource{kind: kind} })
	}
	return found
}

// connection is the control plane that a configuration of the provider names.
type connection struct {
	client  *api.Client
	manager string
	plans   *plannedDocuments
}

func orVariable(given types.String, name string) string {
	if given.IsNull() {
		return strings.TrimSpace(os.Getenv(name))
	}
	return given.ValueString()
}
