package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/towline/terraform-provider-towline/internal/values"
)

// jsonText checks that a text is JSON.
type jsonText struct{}

func (jsonText) Description(context.Context) string {
	return "value must be JSON"
}

func (v jsonText) MarkdownDescription(ctx context.Context) string {
	return v.Description(ctx)
}

func (jsonText) ValidateString(_ context.Context, request validator.StringRequest, response *validator.StringResponse) {
	if request.ConfigValue.IsNull() || request.ConfigValue.IsUnknown() {
		return
	}
	if _, err := values.ParseJSON(request.ConfigValue.ValueString()); err != nil {
		response.Diagnostics.AddAttributeError(request.Path, "Invalid JSON", "The value "+err.Error())
	}
}
