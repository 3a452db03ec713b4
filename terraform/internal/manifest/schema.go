package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
)

// maxNesting is how often a type may stand in itself: Terraform knows no types that never end.
const maxNesting = 2

// schema is the part of JSON Schema that the control plane uses.
type schema struct {
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Type        string            `json:"type"`
	Const       string            `json:"const"`
	Enum        []string          `json:"enum"`
	Required    []string          `json:"required"`
	Properties  map[string]schema `json:"properties"`
	// Additional is a schema, true or false.
	Additional json.RawMessage   `json:"additionalProperties"`
	Items      *schema           `json:"items"`
	Unique     bool              `json:"uniqueItems"`
	MapKeys    []string          `json:"x-kubernetes-list-map-keys"`
	OneOf      []schema          `json:"oneOf"`
	Ref        string            `json:"$ref"`
	WriteOnly  bool              `json:"writeOnly"`
	Immutable  bool              `json:"x-immutable"`
	Defs       map[string]schema `json:"$defs"`
}

// reader converts schemas to types. open counts how often a shared type stands in itself.
type reader struct {
	defs map[string]schema
	open map[string]int
}

// typeOf returns a type, and false for one that contains itself without an end.
func (r *reader) typeOf(given schema) (Type, bool) {
	switch {
	case given.Ref != "":
		return r.shared(strings.TrimPrefix(given.Ref, "#/$defs/"))
	case len(given.OneOf) > 0:
		return r.union(given.OneOf)
	case given.Const != "":
		return Type{Shape: String, Enum: []string{given.Const}}, true
	}
	switch given.Type {
	case "string":
		return Type{Shape: String, Enum: given.Enum}, true
	case "boolean":
		return Type{Shape: Boolean}, true
	case "integer":
		return Type{Shape: Integer}, true
	case "number":
		return Type{Shape: Number}, true
	case "array":
		return r.list(given)
	case "object":
		if given.Properties != nil {
			return r.object(given)
		}
		return r.mapping(given)
	}
	return Type{Shape: JSON}, true
}

func (r *reader) shared(name string) (Type, bool) {
	if r.open[name] >= maxNesting {
		return Type{}, false
	}
	r.open[name]++
	defer func() { r.open[name]-- }()
	return r.typeOf(r.defs[name])
}

func (r *reader) list(given schema) (Type, bool) {
	item, ends := r.typeOf(*given.Items)
	if !ends {
		return Type{}, false
	}
	if given.Unique && item.isPlain() {
		return Type{Shape: Set, Item: &item}, true
	}
	found := Type{Shape: List, Item: &item}
	if len(given.MapKeys) == 1 {
		found.ItemKey = given.MapKeys[0]
	}
	return found, true
}

// mapping returns a map; JSON if its values can have any type.
func (r *reader) mapping(given schema) (Type, bool) {
	var values schema
	if json.Unmarshal(given.Additional, &values) != nil {
		return Type{Shape: JSON}, true
	}
	item, ends := r.typeOf(values)
	if item.Shape == JSON {
		return item, ends
	}
	return Type{Shape: Map, Item: &item}, ends
}

func (r *reader) object(given schema) (Type, bool) {
	found := Type{Shape: Object}
	for key, property := range given.Properties {
		required := slices.Contains(given.Required, key)
		inner, ends := r.typeOf(property)
		if !ends && required {
			return Type{}, false
		}
		if ends {
			found.Fields = append(found.Fields, field(key, property, inner, required))
		}
	}
	sortFields(found.Fields)
	return found, true
}

func field(key string, property schema, inner Type, required bool) Field {
	if property.WriteOnly {
		inner = secret(inner)
	}
	return Field{
		Name: SnakeCase(key), Key: key, Description: property.Description, Type: inner,
		Required: required, WriteOnly: property.WriteOnly, Immutable: property.Immutable,
		Const: property.Const,
	}
}

// secret returns a type whose parts are all write-only, as Terraform requires. A set cannot be.
func secret(given Type) Type {
	if given.Shape == Set {
		given.Shape = List
	}
	given.Fields = slices.Clone(given.Fields)
	for n := range given.Fields {
		given.Fields[n].WriteOnly = true
		given.Fields[n].Type = secret(given.Fields[n].Type)
	}
	return given
}

// union returns an object with the fields of all options; the control plane checks which of them
// belong together. An option that is not an object stands for all options.
func (r *reader) union(options []schema) (Type, bool) {
	var found Type
	var count int
	for _, option := range options {
		inner, ends := r.typeOf(option)
		if !ends {
			continue
		}
		if inner.Shape != Object {
			return inner, true
		}
		describeChoice(inner.Fields)
		if count++; count == 1 {
			found = inner
			continue
		}
		found.Fields = merged(found.Fields, inner.Fields)
	}
	return found, count > 0
}

// describeChoice shows the value of a field with one value in its description.
func describeChoice(fields []Field) {
	for n := range fields {
		if fields[n].Const != "" {
			fields[n].Description = fmt.Sprintf("`%s`: %s", fields[n].Const, fields[n].Description)
			fields[n].Const = ""
		}
	}
}

// merged returns the fields of two options. A field of one option is not required.
func merged(left, right []Field) []Field {
	var found []Field
	for _, field := range left {
		other := slices.IndexFunc(right, func(f Field) bool { return f.Key == field.Key })
		if other < 0 {
			field.Required = false
		} else {
			field = mergedField(field, right[other])
		}
		found = append(found, field)
	}
	for _, field := range right {
		if !slices.ContainsFunc(left, func(f Field) bool { return f.Key == field.Key }) {
			field.Required = false
			found = append(found, field)
		}
	}
	sortFields(found)
	return found
}

func mergedField(left, right Field) Field {
	left.Required = left.Required && right.Required
	left.WriteOnly = left.WriteOnly || right.WriteOnly
	if left.Description != right.Description {
		left.Description += " " + right.Description
	}
	switch {
	case len(left.Type.Enum) > 0 && len(right.Type.Enum) > 0:
		left.Type.Enum = append(slices.Clone(left.Type.Enum), right.Type.Enum...)
	case left.Type.Shape == Object && right.Type.Shape == Object:
		left.Type.Fields = merged(left.Type.Fields, right.Type.Fields)
	case !reflect.DeepEqual(left.Type, right.Type):
		left.Type = Type{Shape: JSON}
	}
	return left
}

func (t *Type) isPlain() bool {
	return t.Shape <= Number
}

func sortFields(fields []Field) {
	sort.Slice(fields, func(i, j int) bool { return fields[i].Key < fields[j].Key })
}
