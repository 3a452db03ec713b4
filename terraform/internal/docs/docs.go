// Package docs writes the reference of the provider in the form of the Terraform Registry.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	settings "github.com/hashicorp/terraform-plugin-framework/provider/schema"

	"github.com/towline/terraform-provider-towline/internal/manifest"
	"github.com/towline/terraform-provider-towline/internal/provider"
)

// Pages returns the text of each page by its path below docs. Folder has the examples.
func Pages(kinds []manifest.Kind, examples string) (map[string]string, error) {
	index, err := indexPage(examples)
	if err != nil {
		return nil, err
	}
	pages := map[string]string{"index.md": index}
	for n := range kinds {
		kind := &kinds[n]
		page, err := resourcePage(kind, examples)
		if err != nil {
			return nil, err
		}
		pages["resources/"+kind.TypeName()+".md"] = page
		pages["data-sources/"+kind.TypeName()+".md"] = dataSourcePage(kind)
	}
	return pages, nil
}

func indexPage(examples string) (string, error) {
	example, err := os.ReadFile(filepath.Join(examples, "provider", "provider.tf"))
	if err != nil {
		return "", err
	}
	schema := provider.SettingsSchema()
	var page strings.Builder
	page.WriteString(head("towline Provider", schema.Description))
	page.WriteString("# towline Provider\n\n" + schema.Description + "\n\n")
	page.WriteString("## Example Usage\n\n```terraform\n" + string(example) + "```\n\n## Schema\n\n### Optional\n\n")
	for _, name := range sortedKeys(schema.Attributes) {
		attribute := schema.Attributes[name].(settings.StringAttribute)
		kind := "String"
		if attribute.Sensitive {
			kind = "String, Sensitive"
		}
		fmt.Fprintf(&page, "- `%s` (%s) %s\n", name, kind, attribute.Description)
	}
	return page.String(), nil
}

func resourcePage(kind *manifest.Kind, examples string) (string, error) {
	folder := filepath.Join(examples, "resources", "towline_"+kind.TypeName())
	example, err := os.ReadFile(filepath.Join(folder, "resource.tf"))
	if err != nil {
		return "", err
	}
	command, err := os.ReadFile(filepath.Join(folder, "import.sh"))
	if err != nil {
		return "", err
	}
	title := "towline_" + kind.TypeName() + " (Resource)"
	var page strings.Builder
	page.WriteString(head(title, kind.Description))
	page.WriteString("# " + title + "\n\n" + kind.Description + "\n\n")
	page.WriteString("## Example Usage\n\n```terraform\n" + string(example) + "```\n\n## Schema\n")
	page.WriteString(attributes(kind.Fields(), ownAttributes(kind)))
	page.WriteString("\n## Import\n\n```shell\n" + string(command) + "```\n")
	return page.String(), nil
}

// ownAttributes returns the lines of attributes that are not fields of the manifest.
func ownAttributes(kind *manifest.Kind) map[string][]string {
	schema := provider.ResourceSchema(kind)
	fields := map[string]bool{}
	for _, field := range kind.Fields() {
		fields[field.Name] = true
	}
	found := map[string][]string{}
	for _, name := range sortedKeys(schema.Attributes) {
		if attribute := schema.Attributes[name]; !fields[name] {
			section := "Read-Only"
			if attribute.IsOptional() {
				section = "Optional"
			}
			typeName := strings.TrimPrefix(attribute.GetType().String(), "basetypes.")
			typeName = strings.TrimSuffix(strings.ReplaceAll(typeName, "Int64", "Number"), "Type")
			typeName = strings.ReplaceAll(typeName, "Bool", "Boolean")
			found[section] = append(found[section], line(name, typeName, attribute.GetDescription()))
		}
	}
	return found
}

func dataSourcePage(kind *manifest.Kind) string {
	title := "towline_" + kind.TypeName() + " (Data Source)"
	var required, optional []manifest.Field
	for _, field := range provider.DataFields(kind) {
		if field.Required && isMetadata(kind, field) {
			required = append(required, field)
		} else {
			optional = append(optional, field)
		}
	}
	var page strings.Builder
	page.WriteString(head(title, kind.Description))
	page.WriteString("# " + title + "\n\n" + kind.Description + "\n\n## Schema\n")
	nested := &nestedObjects{}
	section(&page, "Required", required, nil, nested)
	section(&page, "Read-Only", optional, []string{line("id", "String", "Name in references.")}, nested)
	nested.write(&page, true)
	return page.String()
}

func isMetadata(kind *manifest.Kind, field manifest.Field) bool {
	for _, other := range kind.Metadata {
		if other.Name == field.Name {
			return true
		}
	}
	return false
}

// attributes returns the sections of a resource, and those of its nested objects.
func attributes(fields []manifest.Field, own map[string][]string) string {
	var page strings.Builder
	nested := &nestedObjects{}
	required, optional := split(fields)
	section(&page, "Required", required, nil, nested)
	section(&page, "Optional", optional, own["Optional"], nested)
	section(&page, "Read-Only", nil, own["Read-Only"], nested)
	nested.write(&page, false)
	return page.String()
}

func split(fields []manifest.Field) (required, optional []manifest.Field) {
	for _, field := range fields {
		if field.Required && field.Const == "" {
			required = append(required, field)
		} else {
			optional = append(optional, field)
		}
	}
	return required, optional
}

func section(page *strings.Builder, title string, fields []manifest.Field, more []string, nested *nestedObjects) {
	lines := append([]string{}, more...)
	for _, field := range fields {
		lines = append(lines, nested.line(field))
	}
	if len(lines) == 0 {
		return
	}
	sort.Strings(lines)
	page.WriteString("\n### " + title + "\n\n" + strings.Join(lines, ""))
}

// nestedObjects are the objects that a page still has to describe.
type nestedObjects struct {
	path    string
	pending []nestedObject
}

type nestedObject struct {
	path   string
	fields []manifest.Field
}

func (n *nestedObjects) line(field manifest.Field) string {
	text := field.Description
	if values := enumOf(field.Type); len(values) > 0 && !strings.HasPrefix(text, "`"+values[0]+"`: ") {
		text = strings.TrimSpace(text + " One of `" + strings.Join(values, "`, `") + "`.")
	}
	typeName, inner := describe(field.Type)
	if field.WriteOnly {
		typeName += ", Write-only"
	}
	if inner != nil {
		path := strings.TrimPrefix(n.path+"."+field.Name, ".")
		n.pending = append(n.pending, nestedObject{path, inner})
		text = strings.TrimSpace(text + " See [below](#" + anchor(path) + ").")
	}
	return line(field.Name, typeName, text)
}

// write describes objects until none contains another one. A data source has no optional parts.
func (n *nestedObjects) write(page *strings.Builder, readOnly bool) {
	for len(n.pending) > 0 {
		object := n.pending[0]
		n.pending = n.pending[1:]
		inside := &nestedObjects{path: object.path}
		fmt.Fprintf(page, "\n<a id=%q></a>\n### Nested Schema for `%s`\n", anchor(object.path), object.path)
		required, optional := split(object.fields)
		for _, part := range []struct {
			title  string
			fields []manifest.Field
		}{{"Required", required}, {"Optional", optional}} {
			if len(part.fields) > 0 && !readOnly {
				page.WriteString("\n" + part.title + ":\n")
			}
			if len(part.fields) > 0 {
				page.WriteString("\n")
			}
			for _, field := range part.fields {
				page.WriteString(inside.line(field))
			}
		}
		n.pending = append(inside.pending, n.pending...)
	}
}

// describe returns the name of a type, and the fields of the objects in it.
func describe(given manifest.Type) (string, []manifest.Field) {
	switch given.Shape {
	case manifest.Boolean:
		return "Boolean", nil
	case manifest.Integer, manifest.Number:
		return "Number", nil
	case manifest.List, manifest.Set, manifest.Map:
		inner, fields := describe(*given.Item)
		name := map[manifest.Shape]string{
			manifest.List: "List", manifest.Set: "Set", manifest.Map: "Map",
		}[given.Shape]
		return name + " of " + inner, fields
	case manifest.Object:
		return "Object", given.Fields
	case manifest.JSON:
		return "String, JSON", nil
	}
	return "String", nil
}

func enumOf(given manifest.Type) []string {
	if given.Item != nil {
		return enumOf(*given.Item)
	}
	return given.Enum
}

func line(name, typeName, text string) string {
	return strings.TrimRight(fmt.Sprintf("- `%s` (%s) %s", name, typeName, text), " ") + "\n"
}

func head(title, description string) string {
	return fmt.Sprintf("---\npage_title: %q\ndescription: %q\n---\n\n", title, description)
}

func anchor(path string) string {
	return "nestedatt--" + strings.ReplaceAll(path, ".", "--")
}

func sortedKeys[V any](given map[string]V) []string {
	keys := make([]string, 0, len(given))
	for key := range given {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
