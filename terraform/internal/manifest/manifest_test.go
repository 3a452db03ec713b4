package manifest

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func allKinds(t *testing.T) []Kind {
	t.Helper()
	kinds, err := Kinds()
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func kindNamed(t *testing.T, name string) *Kind {
	t.Helper()
	for _, kind := range allKinds(t) {
		if kind.Name == name {
			return &kind
		}
	}
	t.Fatalf("no kind %s", name)
	return nil
}

func fieldAt(t *testing.T, given Type, path ...string) Field {
	t.Helper()
	for given.Item != nil {
		given = *given.Item
	}
	for _, field := range given.Fields {
		if field.Name == path[0] && len(path) == 1 {
			return field
		}
		if field.Name == path[0] {
			return fieldAt(t, field.Type, path[1:]...)
		}
	}
	t.Fatalf("no field %v", path)
	return Field{}
}

func specField(t *testing.T, kind string, path ...string) Field {
	t.Helper()
	return fieldAt(t, Type{Shape: Object, Fields: kindNamed(t, kind).Spec}, path...)
}

func TestAttributesOfAllKindsHaveTheirOwnNames(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	for _, kind := range allKinds(t) {
		seen := map[string]bool{"id": true, "force_conflicts": true, "secrets_revision": true}
		for _, field := range kind.Fields() {
			if seen[field.Name] || !name.MatchString(field.Name) {
				t.Errorf("%s: the attribute %q is not valid, or exists twice", kind.Name, field.Name)
			}
			seen[field.Name] = true
		}
	}
}

func TestNamesOfTerraform(t *testing.T) {
	for given, want := range map[string]string{
		"onLeave": "on_leave", "OCIRepository": "oci_repository", "ServiceSet": "service_set",
		"commit_status": "commit_status", "ttlHours": "ttl_hours", "name": "name",
	} {
		if got := SnakeCase(given); got != want {
			t.Errorf("SnakeCase(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestTypesOfFields(t *testing.T) {
	for _, test := range []struct {
		field Field
		shape Shape
	}{
		{specField(t, "Cluster", "metadata"), JSON},
		{specField(t, "Cluster", "tags"), Map},
		{specField(t, "Group", "members"), Set},
		{specField(t, "Service", "helm", "values_files"), List},
		{specField(t, "Service", "helm", "values"), String},
		{specField(t, "Service", "verification", "metric", "threshold"), Number},
		{specField(t, "Context", "overrides", "values"), JSON},
	} {
		if test.field.Type.Shape != test.shape {
			t.Errorf("%s has the shape %v, want %v", test.field.Name, test.field.Type.Shape, test.shape)
		}
	}
	if !specField(t, "Service", "namespace").Immutable || specField(t, "Service", "ref").Immutable {
		t.Error("the namespace of a service cannot be changed, but its ref can")
	}
}

func TestSecretsAreWriteOnly(t *testing.T) {
	for _, field := range []Field{
		specField(t, "Secret", "value"), specField(t, "Context", "secrets"),
		specField(t, "NotificationSink", "settings", "slack", "url"),
	} {
		if !field.WriteOnly {
			t.Errorf("%s is not write-only", field.Name)
		}
	}
	if !kindNamed(t, "NotificationSink").HasSecrets() || kindNamed(t, "Role").HasSecrets() {
		t.Error("a sink has secrets, and a role has none")
	}
}

func TestATypeThatContainsItselfEnds(t *testing.T) {
	outer := specField(t, "Pipeline", "edges", "gates", "rule")
	inner := fieldAt(t, outer.Type, "steps", "rule")
	if !slices.Contains(fieldAt(t, outer.Type, "kind").Type.Enum, "WORKFLOW") {
		t.Error("a gate can be a workflow")
	}
	if slices.Contains(fieldAt(t, inner.Type, "kind").Type.Enum, "WORKFLOW") {
		t.Error("a step of a workflow cannot be one")
	}
}

func TestOptionsJoinTheirFields(t *testing.T) {
	source := specField(t, "Secret", "source")
	kind := fieldAt(t, source.Type, "kind")
	if want := []string{"ENVIRONMENT", "KUBERNETES", "VAULT"}; !reflect.DeepEqual(kind.Type.Enum, want) {
		t.Errorf("kinds of sources are %v, want %v", kind.Type.Enum, want)
	}
	if !kind.Required || fieldAt(t, source.Type, "store").Required {
		t.Error("the kind is required, but not a field of some options")
	}
}

func TestOptionsOfPlainTypes(t *testing.T) {
	text := []byte(`{"title": "Thing", "properties": {"metadata": {"type": "object", "properties": {}},
	  "spec": {"type": "object", "properties": {"token": {"$ref": "#/$defs/SecretText", "writeOnly": true}}}},
	  "$defs": {"SecretText": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {}}]}}}`)
	kind, err := parseKind(text)
	if err != nil {
		t.Fatal(err)
	}
	if token := kind.Spec[0]; token.Type.Shape != String || !token.WriteOnly {
		t.Errorf("the token is %+v", token)
	}
}

func TestKeysOfResources(t *testing.T) {
	service := kindNamed(t, "Service")
	metadata, err := service.MetadataOf("eu-1/web")
	if err != nil || service.Key(metadata) != "eu-1/web" || metadata["cluster"] != "eu-1" {
		t.Errorf("%v, %v", metadata, err)
	}
	if _, err := service.MetadataOf("web"); err == nil || !strings.Contains(err.Error(), "CLUSTER/NAME") {
		t.Errorf("a service needs its cluster: %v", err)
	}
	repository := kindNamed(t, "GitRepository")
	url := "https://git.example.org/shop.git"
	if metadata, err := repository.MetadataOf(url); err != nil || repository.Key(metadata) != url {
		t.Errorf("%v, %v", metadata, err)
	}
}

func TestPlacesOfProblems(t *testing.T) {
	for _, test := range []struct {
		kind, field string
		want        []Step
	}{
		{"Service", "spec.helm.valuesFiles[1]", []Step{{Field: "helm"}, {Field: "values_files"}, {Position: 1, InList: true}}},
		{"Cluster", "spec.tags.env", []Step{{Field: "tags"}, {MapKey: "env"}}},
		{"Cluster", "spec.metadata.zone", []Step{{Field: "metadata"}}},
		{"Service", "metadata.cluster", []Step{{Field: "cluster"}}},
		{"Service", "spec", nil},
		{"Service", "spec.unknown", nil},
		{"Service", "", nil},
	} {
		if got := kindNamed(t, test.kind).Attribute(test.field); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", test.field, got, test.want)
		}
	}
}

func TestTextOfADocumentIsJSONThatYAMLAllows(t *testing.T) {
	given := "<a>\x7f\ufeff\u0085 ✓ 😀"
	document := &Document{
		Kind: kindNamed(t, "Role"), Metadata: map[string]any{"name": "x"}, Spec: map[string]any{"description": given},
	}
	text, err := document.Text()
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text, "\x7f\ufeff\u0085") {
		t.Errorf("%q has characters that YAML refuses", text)
	}
	var read struct {
		Spec map[string]string `json:"spec"`
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil || read.Spec["description"] != given {
		t.Errorf("%q, %v", read.Spec, err)
	}
}
