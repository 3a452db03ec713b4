// Package manifest describes the kinds of manifests that the control plane accepts.
//
// The control plane writes the JSON Schemas in the folder schemas. So a new field of a kind needs no
// code here.
package manifest

import (
	"embed"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode"
)

//go:embed schemas/*.json
var schemas embed.FS

// APIVersion is the version of all manifests.
const APIVersion = "towline.io/v1"

// Shape is the shape of a value.
type Shape int

// Shapes of values. JSON is any value as JSON text.
const (
	String Shape = iota
	Boolean
	Integer
	Number
	List
	Set
	Map
	Object
	JSON
)

// Type is the type of a field. Item is set for lists, sets and maps, and Fields for objects.
type Type struct {
	Shape  Shape
	Enum   []string
	Item   *Type
	Fields []Field
	// ItemKey is the field that tells the items of a list without an order apart.
	ItemKey string
}

// Field is a field of a manifest, and an attribute of Terraform.
type Field struct {
	// Name is the name in Terraform, such as "on_leave".
	Name string
	// Key is the name in the manifest, such as "onLeave".
	Key         string
	Description string
	Type        Type
	Required    bool
	// WriteOnly is true for secrets: neither the control plane nor the state returns them.
	WriteOnly bool
	// Immutable is true if a change needs a new resource.
	Immutable bool
	// Const is the only value. Empty: any.
	Const string
}

// Kind is one kind of manifests, such as Service.
type Kind struct {
	Name        string
	Description string
	Metadata    []Field
	Spec        []Field
}

// Fields returns the fields of metadata and spec, which Terraform has side by side.
func (k *Kind) Fields() []Field {
	return append(append([]Field{}, k.Metadata...), k.Spec...)
}

// TypeName returns the name in Terraform without the prefix of the provider.
func (k *Kind) TypeName() string {
	return SnakeCase(k.Name)
}

// Scope returns the metadata field that stands before the name in references, such as "cluster".
// It is empty for kinds whose name is unique alone.
func (k *Kind) Scope() string {
	for _, field := range k.Metadata {
		if field.Required && field.Key != "name" {
			return field.Key
		}
	}
	return ""
}

// HasSecrets returns whether a field of the kind is write-only.
func (k *Kind) HasSecrets() bool {
	return hasSecrets(k.Spec)
}

func hasSecrets(fields []Field) bool {
	for _, field := range fields {
		if field.WriteOnly || field.Type.hasSecrets() {
			return true
		}
	}
	return false
}

func (t *Type) hasSecrets() bool {
	return hasSecrets(t.Fields) || (t.Item != nil && t.Item.hasSecrets())
}

// Key returns the name that references to a resource have: "eu-1/web" for a service.
func (k *Kind) Key(metadata map[string]any) string {
	name, _ := metadata["name"].(string)
	if scope := k.Scope(); scope != "" {
		place, _ := metadata[scope].(string)
		return place + "/" + name
	}
	return name
}

// MetadataOf returns the metadata that a key names.
func (k *Kind) MetadataOf(key string) (map[string]any, error) {
	scope := k.Scope()
	if scope == "" {
		return map[string]any{"name": key}, nil
	}
	place, name, found := strings.Cut(key, "/")
	if !found || place == "" || name == "" {
		return nil, fmt.Errorf("%q is not the name of a %s: use %s/NAME", key, k.Name, strings.ToUpper(scope))
	}
	return map[string]any{scope: place, "name": name}, nil
}

// Kinds returns all kinds, by name.
func Kinds() ([]Kind, error) {
	entries, err := schemas.ReadDir("schemas")
	if err != nil {
		return nil, err
	}
	var kinds []Kind
	for _, entry := range entries {
		text, err := schemas.ReadFile("schemas/" + entry.Name())
		if err != nil {
			return nil, err
		}
		kind, err := parseKind(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		kinds = append(kinds, kind)
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].Name < kinds[j].Name })
	return kinds, nil
}

func parseKind(text []byte) (Kind, error) {
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		return Kind{}, err
	}
	kind := Kind{Name: root.Title, Description: root.Description}
	reader := reader{defs: root.Defs, open: map[string]int{}}
	for part, into := range map[string]*[]Field{"metadata": &kind.Metadata, "spec": &kind.Spec} {
		found, ends := reader.typeOf(root.Properties[part])
		if !ends || found.Shape != Object {
			return Kind{}, fmt.Errorf("%s is not an object", part)
		}
		*into = found.Fields
	}
	for n, field := range kind.Metadata {
		// The name and the place of a resource are its identity.
		kind.Metadata[n].Immutable = field.Type.Shape == String
	}
	return kind, nil
}

// SnakeCase returns a name in the style of Terraform: "on_leave" for "onLeave".
func SnakeCase(name string) string {
	var text strings.Builder
	letters := []rune(name)
	for n, letter := range letters {
		startsWord := n > 0 && unicode.IsUpper(letter) &&
			(!unicode.IsUpper(letters[n-1]) || n+1 < len(letters) && unicode.IsLower(letters[n+1]))
		if startsWord && letters[n-1] != '_' {
			text.WriteByte('_')
		}
		text.WriteRune(unicode.ToLower(letter))
	}
	return text.String()
}
