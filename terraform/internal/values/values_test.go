package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/towline/terraform-provider-towline/internal/manifest"
)

const runs = 40

// specs returns the specs of all kinds as types.
func specs(t *testing.T) map[string]manifest.Type {
	t.Helper()
	kinds, err := manifest.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]manifest.Type{}
	for _, kind := range kinds {
		found[kind.Name] = manifest.Type{Shape: manifest.Object, Fields: kind.Spec}
	}
	return found
}

// eachValue calls a test with random values of all kinds. A failure names the seed.
func eachValue(t *testing.T, test func(t *testing.T, kind manifest.Type, value tftypes.Value)) {
	for name, kind := range specs(t) {
		for seed := range int64(runs) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				test(t, kind, randomValue(rand.New(rand.NewSource(seed)), kind, 0))
			})
		}
	}
}

func randomValue(random *rand.Rand, given manifest.Type, depth int) tftypes.Value {
	kind := TypeOf(given)
	switch given.Shape {
	case manifest.Boolean:
		return tftypes.NewValue(kind, random.Intn(2) == 0)
	case manifest.Integer:
		return tftypes.NewValue(kind, random.Int63()-random.Int63())
	case manifest.Number:
		return tftypes.NewValue(kind, big.NewFloat(random.NormFloat64()))
	case manifest.Object:
		attributes := map[string]tftypes.Value{}
		for _, field := range given.Fields {
			if random.Intn(3) == 0 || depth > 6 {
				attributes[field.Name] = tftypes.NewValue(TypeOf(field.Type), nil)
			} else {
				attributes[field.Name] = randomValue(random, field.Type, depth+1)
			}
		}
		return tftypes.NewValue(kind, attributes)
	case manifest.Map:
		items := map[string]tftypes.Value{}
		for range random.Intn(3) {
			items[randomText(random)] = randomValue(random, *given.Item, depth+1)
		}
		return tftypes.NewValue(kind, items)
	case manifest.List, manifest.Set:
		var items []tftypes.Value
		for range random.Intn(3) {
			items = append(items, randomValue(random, *given.Item, depth+1))
		}
		return tftypes.NewValue(kind, items)
	case manifest.JSON:
		text, _ := json.Marshal(map[string]any{randomText(random): []any{random.Intn(9), randomText(random), nil}})
		return tftypes.NewValue(kind, string(text))
	}
	if len(given.Enum) > 0 {
		return tftypes.NewValue(kind, given.Enum[random.Intn(len(given.Enum))])
	}
	return tftypes.NewValue(kind, randomText(random))
}

func randomText(random *rand.Rand) string {
	letters := []rune("ab0.-/_\"\\\n\t✓😀\u007f\ufeff ~!#:{}[]")
	var text strings.Builder
	for range random.Intn(8) + 1 {
		text.WriteRune(letters[random.Intn(len(letters))])
	}
	return text.String()
}

// sent returns a value as the control plane reads it.
func sent(t *testing.T, kind manifest.Type, value tftypes.Value) any {
	t.Helper()
	written, err := ToManifest(kind, value)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseJSON(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// withoutSecrets returns a value as Terraform stores it.
func withoutSecrets(t *testing.T, fields []manifest.Field, value tftypes.Value) tftypes.Value {
	t.Helper()
	if value.IsNull() {
		return value
	}
	attributes := Attributes(value)
	for _, field := range fields {
		if field.WriteOnly {
			attributes[field.Name] = tftypes.NewValue(TypeOf(field.Type), nil)
		} else {
			attributes[field.Name] = storedType(t, field.Type, attributes[field.Name])
		}
	}
	return tftypes.NewValue(value.Type(), attributes)
}

func storedType(t *testing.T, given manifest.Type, value tftypes.Value) tftypes.Value {
	t.Helper()
	if value.IsNull() {
		return value
	}
	switch given.Shape {
	case manifest.Object:
		return withoutSecrets(t, given.Fields, value)
	case manifest.List:
		var items, stored []tftypes.Value
		_ = value.As(&items)
		for _, item := range items {
			stored = append(stored, storedType(t, *given.Item, item))
		}
		return tftypes.NewValue(value.Type(), stored)
	case manifest.Map:
		items, stored := map[string]tftypes.Value{}, map[string]tftypes.Value{}
		_ = value.As(&items)
		for key, item := range items {
			stored[key] = storedType(t, *given.Item, item)
		}
		return tftypes.NewValue(value.Type(), stored)
	}
	return value
}

func TestValuesSurviveTheWayToTheControlPlaneAndBack(t *testing.T) {
	eachValue(t, func(t *testing.T, kind manifest.Type, value tftypes.Value) {
		read, err := FromManifest(kind, sent(t, kind, value))
		if err != nil {
			t.Fatal(err)
		}
		want := sent(t, kind, withoutSecrets(t, kind.Fields, value))
		if got := sent(t, kind, read); !reflect.DeepEqual(got, want) {
			t.Errorf("\ngot  %v\nwant %v", got, want)
		}
	})
}

func TestARefreshOfAnAppliedValueChangesNothing(t *testing.T) {
	eachValue(t, func(t *testing.T, kind manifest.Type, value tftypes.Value) {
		state := withoutSecrets(t, kind.Fields, value)
		refreshed, err := Refresh(kind, state, sent(t, kind, value))
		if err != nil {
			t.Fatal(err)
		}
		if !refreshed.Equal(state) {
			t.Errorf("\ngot  %v\nwant %v", refreshed, state)
		}
	})
}

func TestARefreshFindsEachChangeOfAManagedField(t *testing.T) {
	eachValue(t, func(t *testing.T, kind manifest.Type, value tftypes.Value) {
		state := withoutSecrets(t, kind.Fields, value)
		current, _ := sent(t, kind, state).(map[string]any)
		other, _ := sent(t, kind, withoutSecrets(t, kind.Fields,
			randomValue(rand.New(rand.NewSource(-1)), kind, 0))).(map[string]any)
		for _, field := range kind.Fields {
			mine, theirs := current[field.Key], other[field.Key]
			plain := field.Type.Shape <= manifest.Number
			if !plain || mine == nil || theirs == nil || reflect.DeepEqual(mine, theirs) {
				continue
			}
			current[field.Key] = theirs
			refreshed, err := Refresh(kind, state, current)
			if err != nil || refreshed.Equal(state) {
				t.Errorf("%s: %v → %v was not found (%v)", field.Name, mine, theirs, err)
			}
			current[field.Key] = mine
		}
	})
}

func TestFieldsOfOtherManagersAreNoDrift(t *testing.T) {
	kind := specs(t)["Cluster"]
	state := objectWith(t, kind, map[string]any{"tags": map[string]any{"env": "prod"}})
	current := map[string]any{
		"displayName": "Europe", "tags": map[string]any{"env": "prod", "team": "shop"},
	}
	if refreshed, err := Refresh(kind, state, current); err != nil || !refreshed.Equal(state) {
		t.Errorf("%v, %v", refreshed, err)
	}
}

func TestValuesThatOnlyLookDifferentAreNoDrift(t *testing.T) {
	text, list := manifest.Type{Shape: manifest.String}, manifest.Type{Shape: manifest.List}
	list.Item = &text
	set, object := manifest.Type{Shape: manifest.Set, Item: &text}, manifest.Type{Shape: manifest.JSON}
	named := manifest.Type{Shape: manifest.List, ItemKey: "name", Item: &manifest.Type{
		Shape: manifest.Object, Fields: []manifest.Field{{Name: "name", Key: "name", Type: text}},
	}}
	for _, test := range []struct {
		kind           manifest.Type
		prior, current any
		same           bool
	}{
		{text, "09:00", "09:00:00", true},
		{text, "2026-12-24T00:00:00Z", "2026-12-24T00:00:00+00:00", true},
		{text, "2026-12-24T00:00:00Z", "2026-12-25T00:00:00+00:00", false},
		{text, "", nil, true},
		{list, []any{}, nil, true},
		{list, []any{"a", "b"}, []any{"b", "a"}, false},
		{set, []any{"a", "b"}, []any{"b", "a"}, true},
		{set, []any{"a"}, []any{"b", "a"}, false},
		{named, []any{map[string]any{"name": "b"}, map[string]any{"name": "a"}}, []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}, true},
		{object, map[string]any{"a": json.Number("1")}, map[string]any{"a": json.Number("1"), "b": "other"}, true},
		{object, map[string]any{"a": json.Number("1")}, map[string]any{"a": json.Number("2")}, false},
	} {
		prior, err := FromManifest(test.kind, test.prior)
		if err != nil {
			t.Fatal(err)
		}
		refreshed, err := Refresh(test.kind, prior, test.current)
		if err != nil || refreshed.Equal(prior) != test.same {
			t.Errorf("%v and %v: %v, %v", test.prior, test.current, refreshed, err)
		}
	}
}

func TestUnknownValuesAreTold(t *testing.T) {
	kind := specs(t)["Cluster"]
	attributes := attributesWith(t, kind, map[string]any{"displayName": "Europe"})
	attributes["tags"] = tftypes.NewValue(attributes["tags"].Type(), tftypes.UnknownValue)
	value := tftypes.NewValue(TypeOf(kind), attributes)
	if _, err := ToManifest(kind, value); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if known := KnownToManifest(kind.Fields, value); !reflect.DeepEqual(known, map[string]any{"displayName": "Europe"}) {
		t.Errorf("got %v", known)
	}
}

func TestSecretsAreFoundInAnyPlace(t *testing.T) {
	kind := specs(t)["Pipeline"]
	gate := func(rule map[string]any) map[string]any {
		gates := []any{map[string]any{"name": "check", "rule": rule}}
		return map[string]any{"edges": []any{map[string]any{"source": "a", "target": "b", "gates": gates}}}
	}
	without := objectWith(t, kind, gate(map[string]any{"kind": "APPROVAL"}))
	if HasSecrets(kind.Fields, without) {
		t.Error("an approval has no secret")
	}
	for seed := range int64(runs) {
		value := randomValue(rand.New(rand.NewSource(seed)), kind, 0)
		stored := withoutSecrets(t, kind.Fields, value)
		if HasSecrets(kind.Fields, stored) {
			t.Error("a stored value has a secret")
		}
		if HasSecrets(kind.Fields, value) == value.Equal(stored) {
			t.Errorf("seed %d: a secret was not found", seed)
		}
	}
}

func TestCompactLeavesOutWhatConfigurationsDo(t *testing.T) {
	kind := specs(t)["Project"]
	given := map[string]any{
		"description": "", "bindings": map[string]any{"viewer": map[string]any{"users": []any{"a"}, "groups": []any{}}},
		"fence": map[string]any{"sources": []any{map[string]any{"url": "x", "refs": []any{}}}, "signers": []any{}},
	}
	want := map[string]any{
		"bindings": map[string]any{"viewer": map[string]any{"users": []any{"a"}}},
		"fence":    map[string]any{"sources": []any{map[string]any{"url": "x"}}},
	}
	if got := Compact(kind, given); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

func attributesWith(t *testing.T, kind manifest.Type, fields map[string]any) map[string]tftypes.Value {
	t.Helper()
	return Attributes(objectWith(t, kind, fields))
}

func objectWith(t *testing.T, kind manifest.Type, fields map[string]any) tftypes.Value {
	t.Helper()
	value, err := FromManifest(kind, fields)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
