// Package values converts between the values of Terraform and those of manifests.
package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/towline/terraform-provider-towline/internal/manifest"
)

// ErrUnknown says that a value is known only after another resource is applied.
var ErrUnknown = errors.New("the value is not known yet")

// TypeOf returns the type of Terraform for a type of manifests.
func TypeOf(given manifest.Type) tftypes.Type {
	switch given.Shape {
	case manifest.Boolean:
		return tftypes.Bool
	case manifest.Integer, manifest.Number:
		return tftypes.Number
	case manifest.List:
		return tftypes.List{ElementType: TypeOf(*given.Item)}
	case manifest.Set:
		return tftypes.Set{ElementType: TypeOf(*given.Item)}
	case manifest.Map:
		return tftypes.Map{ElementType: TypeOf(*given.Item)}
	case manifest.Object:
		attributes := map[string]tftypes.Type{}
		for _, field := range given.Fields {
			attributes[field.Name] = TypeOf(field.Type)
		}
		return tftypes.Object{AttributeTypes: attributes}
	}
	return tftypes.String
}

// ToManifest returns a value as manifests have it. Null attributes are left out. ErrUnknown: a part
// is not known yet.
func ToManifest(given manifest.Type, value tftypes.Value) (any, error) {
	if !value.IsKnown() {
		return nil, ErrUnknown
	}
	if value.IsNull() {
		return nil, nil
	}
	switch given.Shape {
	case manifest.Boolean:
		var found bool
		err := value.As(&found)
		return found, err
	case manifest.Integer, manifest.Number:
		var number *big.Float
		if err := value.As(&number); err != nil {
			return nil, err
		}
		return json.Number(number.Text('g', -1)), nil
	case manifest.List, manifest.Set:
		return listToManifest(*given.Item, value)
	case manifest.Map:
		return mapToManifest(*given.Item, value)
	case manifest.Object:
		return FieldsToManifest(given.Fields, value)
	}
	var text string
	if err := value.As(&text); err != nil {
		return nil, err
	}
	if given.Shape == manifest.JSON {
		return ParseJSON(text)
	}
	return text, nil
}

// FieldsToManifest returns the attributes of an object that are not null.
func FieldsToManifest(fields []manifest.Field, value tftypes.Value) (map[string]any, error) {
	attributes := Attributes(value)
	found := map[string]any{}
	for _, field := range fields {
		inner, err := ToManifest(field.Type, attributes[field.Name])
		if err != nil {
			return nil, inField(field.Name, err)
		}
		if inner != nil {
			found[field.Key] = inner
		}
	}
	return found, nil
}

// Attributes returns a copy of the attributes of an object; all are null if it is.
func Attributes(object tftypes.Value) map[string]tftypes.Value {
	attributes := map[string]tftypes.Value{}
	if !object.IsNull() && object.IsKnown() && object.As(&attributes) == nil {
		// As returns the map that the value itself uses.
		return maps.Clone(attributes)
	}
	if kind, ok := object.Type().(tftypes.Object); ok {
		for name, inner := range kind.AttributeTypes {
			attributes[name] = tftypes.NewValue(inner, nil)
		}
	}
	return attributes
}

// KnownToManifest returns the attributes of an object without those that are not known yet.
func KnownToManifest(fields []manifest.Field, value tftypes.Value) map[string]any {
	attributes := Attributes(value)
	found := map[string]any{}
	for _, field := range fields {
		if inner, err := ToManifest(field.Type, attributes[field.Name]); err == nil && inner != nil {
			found[field.Key] = inner
		}
	}
	return found
}

// HasSecrets returns whether a write-only attribute has a value.
func HasSecrets(fields []manifest.Field, value tftypes.Value) bool {
	attributes := Attributes(value)
	for _, field := range fields {
		inner := attributes[field.Name]
		if !inner.IsNull() && (field.WriteOnly || containSecrets(field.Type, inner)) {
			return true
		}
	}
	return false
}

func containSecrets(given manifest.Type, value tftypes.Value) bool {
	if given.Shape == manifest.Object {
		return HasSecrets(given.Fields, value)
	}
	for _, item := range itemsOf(given, value) {
		if containSecrets(*given.Item, item) {
			return true
		}
	}
	return false
}

// itemsOf returns the items of a collection.
func itemsOf(given manifest.Type, value tftypes.Value) []tftypes.Value {
	var list []tftypes.Value
	var named map[string]tftypes.Value
	switch given.Shape {
	case manifest.List, manifest.Set:
		_ = value.As(&list)
	case manifest.Map:
		_ = value.As(&named)
	}
	for _, item := range named {
		list = append(list, item)
	}
	return list
}

// FromManifest returns a whole value for Terraform, without secrets. Absent fields are null.
func FromManifest(given manifest.Type, value any) (tftypes.Value, error) {
	kind := TypeOf(given)
	if value == nil {
		return tftypes.NewValue(kind, nil), nil
	}
	switch given.Shape {
	case manifest.List, manifest.Set:
		return listFromManifest(given, kind, value)
	case manifest.Map:
		return mapFromManifest(given, kind, value)
	case manifest.Object:
		return objectFromManifest(given, kind, value)
	case manifest.JSON:
		text, err := json.Marshal(value)
		return tftypes.NewValue(kind, string(text)), err
	}
	return plainFromManifest(given, kind, value)
}

// ParseJSON reads JSON without a loss of digits.
func ParseJSON(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("must be JSON, such as jsonencode({ key = \"value\" }): %w", err)
	}
	if decoder.More() {
		return nil, errors.New("must be one JSON value")
	}
	return value, nil
}

func listToManifest(item manifest.Type, value tftypes.Value) (any, error) {
	var values []tftypes.Value
	if err := value.As(&values); err != nil {
		return nil, err
	}
	found := make([]any, 0, len(values))
	for _, inner := range values {
		converted, err := ToManifest(item, inner)
		if err != nil {
			return nil, err
		}
		found = append(found, converted)
	}
	return found, nil
}

func mapToManifest(item manifest.Type, value tftypes.Value) (any, error) {
	var values map[string]tftypes.Value
	if err := value.As(&values); err != nil {
		return nil, err
	}
	found := make(map[string]any, len(values))
	for key, inner := range values {
		converted, err := ToManifest(item, inner)
		if err != nil {
			return nil, inField(key, err)
		}
		found[key] = converted
	}
	return found, nil
}

func listFromManifest(given manifest.Type, kind tftypes.Type, value any) (tftypes.Value, error) {
	items, ok := value.([]any)
	if !ok {
		return tftypes.Value{}, wrongShape("a list", value)
	}
	found := make([]tftypes.Value, 0, len(items))
	for _, inner := range items {
		converted, err := FromManifest(*given.Item, inner)
		if err != nil {
			return tftypes.Value{}, err
		}
		found = append(found, converted)
	}
	return tftypes.NewValue(kind, found), nil
}

func mapFromManifest(given manifest.Type, kind tftypes.Type, value any) (tftypes.Value, error) {
	items, ok := value.(map[string]any)
	if !ok {
		return tftypes.Value{}, wrongShape("an object", value)
	}
	found := make(map[string]tftypes.Value, len(items))
	for key, inner := range items {
		converted, err := FromManifest(*given.Item, inner)
		if err != nil {
			return tftypes.Value{}, inField(key, err)
		}
		found[key] = converted
	}
	return tftypes.NewValue(kind, found), nil
}

func objectFromManifest(given manifest.Type, kind tftypes.Type, value any) (tftypes.Value, error) {
	items, ok := value.(map[string]any)
	if !ok {
		return tftypes.Value{}, wrongShape("an object", value)
	}
	found := map[string]tftypes.Value{}
	for _, field := range given.Fields {
		inner := items[field.Key]
		if field.WriteOnly {
			inner = nil
		}
		converted, err := FromManifest(field.Type, inner)
		if err != nil {
			return tftypes.Value{}, inField(field.Name, err)
		}
		found[field.Name] = converted
	}
	return tftypes.NewValue(kind, found), nil
}

func plainFromManifest(given manifest.Type, kind tftypes.Type, value any) (tftypes.Value, error) {
	switch value := value.(type) {
	case bool:
		if given.Shape == manifest.Boolean {
			return tftypes.NewValue(kind, value), nil
		}
	case json.Number:
		if given.Shape == manifest.Integer || given.Shape == manifest.Number {
			number, _, err := big.ParseFloat(value.String(), 10, 512, big.ToNearestEven)
			return tftypes.NewValue(kind, number), err
		}
	case string:
		if given.Shape == manifest.String {
			return tftypes.NewValue(kind, value), nil
		}
	}
	return tftypes.Value{}, wrongShape("another type", value)
}

// sameJSON returns whether two values are written alike.
func sameJSON(left, right any) bool {
	one, err := json.Marshal(left)
	if err != nil {
		return false
	}
	other, err := json.Marshal(right)
	return err == nil && bytes.Equal(one, other)
}

func inField(name string, err error) error {
	return fmt.Errorf("%s: %w", name, err)
}

func wrongShape(wanted string, value any) error {
	return fmt.Errorf("the control plane returned %T instead of %s: the provider is older or newer than the control plane", value, wanted)
}
