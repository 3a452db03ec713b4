package values

import (
	"encoding/json"
	"math/big"
	"reflect"
	"sort"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/towline/terraform-provider-towline/internal/manifest"
)

// Refresh returns the attributes that Terraform manages as the control plane has them now.
//
// An attribute is managed if its prior value is not null; the others belong to other managers. A
// value that only looks different keeps its prior form.
func Refresh(given manifest.Type, prior tftypes.Value, current any) (tftypes.Value, error) {
	if prior.IsNull() || !prior.IsKnown() {
		return tftypes.NewValue(prior.Type(), nil), nil
	}
	written, err := ToManifest(given, prior)
	if err != nil {
		// A state that cannot be read is replaced.
		return FromManifest(given, current)
	}
	if isEmpty(written) && isEmpty(current) {
		return prior, nil
	}
	if current == nil {
		return tftypes.NewValue(prior.Type(), nil), nil
	}
	switch given.Shape {
	case manifest.Object:
		return refreshObject(given, prior, current)
	case manifest.Map:
		return refreshMap(given, prior, current)
	case manifest.List:
		return refreshList(given, prior, current)
	case manifest.Set:
		if sameJSON(ordered(written), ordered(current)) {
			return prior, nil
		}
	case manifest.JSON:
		current = managedPart(written, current)
		if sameJSON(written, current) {
			return prior, nil
		}
	default:
		if isSame(written, current) {
			return prior, nil
		}
	}
	return FromManifest(given, current)
}

func refreshObject(given manifest.Type, prior tftypes.Value, current any) (tftypes.Value, error) {
	items, ok := current.(map[string]any)
	if !ok {
		return tftypes.Value{}, wrongShape("an object", current)
	}
	attributes := Attributes(prior)
	for _, field := range given.Fields {
		inner, err := Refresh(field.Type, attributes[field.Name], items[field.Key])
		if err != nil {
			return tftypes.Value{}, inField(field.Name, err)
		}
		attributes[field.Name] = inner
	}
	return tftypes.NewValue(prior.Type(), attributes), nil
}

// refreshMap keeps the keys of the prior value: other managers own the other keys.
func refreshMap(given manifest.Type, prior tftypes.Value, current any) (tftypes.Value, error) {
	items, ok := current.(map[string]any)
	if !ok {
		return tftypes.Value{}, wrongShape("an object", current)
	}
	values := map[string]tftypes.Value{}
	if err := prior.As(&values); err != nil {
		return tftypes.Value{}, err
	}
	found := map[string]tftypes.Value{}
	for key, value := range values {
		item, exists := items[key]
		if !exists {
			continue
		}
		inner, err := Refresh(*given.Item, value, item)
		if err != nil {
			return tftypes.Value{}, inField(key, err)
		}
		found[key] = inner
	}
	return tftypes.NewValue(prior.Type(), found), nil
}

// refreshList compares items at the same position, or with the same key. A new item is taken whole.
func refreshList(given manifest.Type, prior tftypes.Value, current any) (tftypes.Value, error) {
	items, ok := current.([]any)
	if !ok {
		return tftypes.Value{}, wrongShape("a list", current)
	}
	var values []tftypes.Value
	if err := prior.As(&values); err != nil {
		return tftypes.Value{}, err
	}
	if given.ItemKey != "" {
		items = inOrderOf(given, values, items)
	}
	var found []tftypes.Value
	for n, item := range items {
		var inner tftypes.Value
		var err error
		if n < len(values) {
			inner, err = Refresh(*given.Item, values[n], item)
		} else {
			inner, err = FromManifest(*given.Item, item)
		}
		if err != nil {
			return tftypes.Value{}, err
		}
		found = append(found, inner)
	}
	return tftypes.NewValue(prior.Type(), found), nil
}

// inOrderOf returns items in the order of the prior ones with the same key, then new ones.
func inOrderOf(given manifest.Type, prior []tftypes.Value, items []any) []any {
	place := map[any]int{}
	for n, value := range prior {
		if written, err := ToManifest(*given.Item, value); err == nil {
			place[keyOf(written, given.ItemKey)] = n
		}
	}
	result := append([]any{}, items...)
	at := func(item any) int {
		if n, known := place[keyOf(item, given.ItemKey)]; known {
			return n
		}
		return len(prior)
	}
	sort.SliceStable(result, func(i, j int) bool { return at(result[i]) < at(result[j]) })
	return result
}

func keyOf(item any, key string) string {
	fields, _ := item.(map[string]any)
	text, _ := fields[key].(string)
	return text
}

// managedPart returns the keys of the written value, as the current value has them.
func managedPart(written, current any) any {
	mine, isMine := written.(map[string]any)
	theirs, isTheirs := current.(map[string]any)
	if !isMine || !isTheirs {
		return current
	}
	found := map[string]any{}
	for key, value := range mine {
		if inner, exists := theirs[key]; exists {
			found[key] = managedPart(value, inner)
		}
	}
	return found
}

func ordered(value any) any {
	items, ok := value.([]any)
	if !ok {
		return value
	}
	result := append([]any{}, items...)
	sort.Slice(result, func(i, j int) bool { return text(result[i]) < text(result[j]) })
	return result
}

func text(value any) string {
	written, _ := json.Marshal(value)
	return string(written)
}

// Compact returns a value without the empty fields of its objects, which configurations leave out.
func Compact(given manifest.Type, value any) any {
	switch items := value.(type) {
	case []any:
		if given.Item == nil {
			return value
		}
		found := make([]any, 0, len(items))
		for _, item := range items {
			found = append(found, Compact(*given.Item, item))
		}
		return found
	case map[string]any:
		found := map[string]any{}
		for _, field := range given.Fields {
			if inner := Compact(field.Type, items[field.Key]); !isEmpty(inner) {
				found[field.Key] = inner
			}
		}
		if given.Shape == manifest.Map {
			for key, item := range items {
				found[key] = Compact(*given.Item, item)
			}
		}
		if given.Shape != manifest.JSON {
			return found
		}
	}
	return value
}

// isEmpty returns whether the control plane treats a value as absent.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

func isSame(written, current any) bool {
	switch written := written.(type) {
	case json.Number:
		other, ok := current.(json.Number)
		return ok && sameNumber(written, other)
	case string:
		other, ok := current.(string)
		return ok && (written == other || sameTime(written, other))
	}
	return reflect.DeepEqual(written, current)
}

func sameNumber(left, right json.Number) bool {
	one, ok := new(big.Rat).SetString(left.String())
	if !ok {
		return false
	}
	other, ok := new(big.Rat).SetString(right.String())
	return ok && one.Cmp(other) == 0
}

// sameTime returns whether two texts are the same time: the control plane writes times in full.
func sameTime(left, right string) bool {
	for _, form := range [][2]string{
		{time.RFC3339Nano, time.RFC3339Nano}, {"15:04", "15:04:05"}, {"15:04:05", "15:04:05"},
	} {
		one, err := time.Parse(form[0], left)
		if err != nil {
			continue
		}
		if other, err := time.Parse(form[1], right); err == nil && one.Equal(other) {
			return true
		}
	}
	return false
}
