package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/towline/terraform-provider-towline/internal/manifest"
)

// resourceAttributes returns the attributes of an object of a resource.
func resourceAttributes(fields []manifest.Field) map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	for _, field := range fields {
		attributes[field.Name] = resourceAttribute(field)
	}
	return attributes
}

func resourceAttribute(field manifest.Field) schema.Attribute {
	kind, text := field.Type, field.Description
	required, secret := field.Required, field.WriteOnly
	switch kind.Shape {
	case manifest.Boolean:
		return schema.BoolAttribute{Description: text, Required: required, Optional: !required, WriteOnly: secret}
	case manifest.Integer:
		return schema.Int64Attribute{Description: text, Required: required, Optional: !required, WriteOnly: secret}
	case manifest.Number:
		return schema.NumberAttribute{Description: text, Required: required, Optional: !required, WriteOnly: secret}
	case manifest.Object:
		return schema.SingleNestedAttribute{
			Description: text, Required: required, Optional: !required, WriteOnly: secret,
			Attributes: resourceAttributes(kind.Fields),
		}
	case manifest.List, manifest.Set, manifest.Map:
		return collectionAttribute(field)
	}
	return textAttribute(field)
}

func textAttribute(field manifest.Field) schema.Attribute {
	found := schema.StringAttribute{
		Description: field.Description, Required: field.Required, Optional: !field.Required,
		WriteOnly: field.WriteOnly, Sensitive: field.WriteOnly, Validators: textValidators(field.Type),
	}
	if field.Const != "" {
		found.Required, found.Optional, found.Computed = false, true, true
		found.Default = stringdefault.StaticString(field.Const)
	}
	return found
}

func collectionAttribute(field manifest.Field) schema.Attribute {
	kind, text, item := field.Type, field.Description, *field.Type.Item
	required, secret := field.Required, field.WriteOnly
	nested := schema.NestedAttributeObject{Attributes: resourceAttributes(item.Fields)}
	switch {
	case kind.Shape == manifest.Map && item.Shape == manifest.Object:
		return schema.MapNestedAttribute{
			Description: text, Required: required, Optional: !required, WriteOnly: secret, NestedObject: nested,
		}
	case kind.Shape == manifest.List && item.Shape == manifest.Object:
		return schema.ListNestedAttribute{
			Description: text, Required: required, Optional: !required, WriteOnly: secret, NestedObject: nested,
		}
	case kind.Shape == manifest.Map:
		return schema.MapAttribute{
			Description: text, Required: required, Optional: !required, WriteOnly: secret, Sensitive: secret,
			ElementType: attributeType(item), Validators: each(item, mapvalidator.ValueStringsAre),
		}
	case kind.Shape == manifest.Set:
		return schema.SetAttribute{
			Description: text, Required: required, Optional: !required,
			ElementType: attributeType(item), Validators: each(item, setvalidator.ValueStringsAre),
		}
	}
	return schema.ListAttribute{
		Description: text, Required: required, Optional: !required, WriteOnly: secret, Sensitive: secret,
		ElementType: attributeType(item), Validators: each(item, listvalidator.ValueStringsAre),
	}
}

// each returns validators for the texts in a collection.
func each[V any](item manifest.Type, of func(...validator.String) V) []V {
	if checks := textValidators(item); len(checks) > 0 {
		return []V{of(checks...)}
	}
	return nil
}

func textValidators(kind manifest.Type) []validator.String {
	switch {
	case kind.Shape == manifest.JSON:
		return []validator.String{jsonText{}}
	case len(kind.Enum) > 0:
		return []validator.String{stringvalidator.OneOf(kind.Enum...)}
	}
	return nil
}

// attributeType returns the type of an attribute, with those of all its parts.
func attributeType(kind manifest.Type) attr.Type {
	switch kind.Shape {
	case manifest.Boolean:
		return types.BoolType
	case manifest.Integer:
		return types.Int64Type
	case manifest.Number:
		return types.NumberType
	case manifest.List:
		return types.ListType{ElemType: attributeType(*kind.Item)}
	case manifest.Set:
		return types.SetType{ElemType: attributeType(*kind.Item)}
	case manifest.Map:
		return types.MapType{ElemType: attributeType(*kind.Item)}
	case manifest.Object:
		return types.ObjectType{AttrTypes: attributeTypes(kind.Fields)}
	}
	return types.StringType
}

func attributeTypes(fields []manifest.Field) map[string]attr.Type {
	found := map[string]attr.Type{}
	for _, field := range fields {
		found[field.Name] = attributeType(field.Type)
	}
	return found
}

// dataAttribute returns an attribute that the control plane sets.
func dataAttribute(field manifest.Field) data.Attribute {
	kind, text := field.Type, field.Description
	switch kind.Shape {
	case manifest.Boolean:
		return data.BoolAttribute{Description: text, Computed: true}
	case manifest.Integer:
		return data.Int64Attribute{Description: text, Computed: true}
	case manifest.Number:
		return data.NumberAttribute{Description: text, Computed: true}
	case manifest.List:
		return data.ListAttribute{Description: text, Computed: true, ElementType: attributeType(*kind.Item)}
	case manifest.Set:
		return data.SetAttribute{Description: text, Computed: true, ElementType: attributeType(*kind.Item)}
	case manifest.Map:
		return data.MapAttribute{Description: text, Computed: true, ElementType: attributeType(*kind.Item)}
	case manifest.Object:
		return data.ObjectAttribute{Description: text, Computed: true, AttributeTypes: attributeTypes(kind.Fields)}
	}
	return data.StringAttribute{Description: text, Computed: true}
}
