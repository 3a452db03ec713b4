package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Document is one manifest.
type Document struct {
	Kind     *Kind
	Metadata map[string]any
	Spec     map[string]any
}

// Key returns the name that references to the resource have.
func (d *Document) Key() string {
	return d.Kind.Key(d.Metadata)
}

// Title returns kind and name, as problems of the control plane name documents.
func (d *Document) Title() string {
	return d.Kind.Name + " " + d.Key()
}

// Text returns the document as JSON in the characters that YAML allows.
func (d *Document) Text() (string, error) {
	fields := map[string]any{
		"apiVersion": APIVersion, "kind": d.Kind.Name, "metadata": d.Metadata,
	}
	if len(d.Spec) > 0 {
		fields["spec"] = d.Spec
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fields); err != nil {
		return "", err
	}
	return escaped(text.String()), nil
}

// escaped writes characters that JSON allows and YAML does not as escapes.
func escaped(text string) string {
	var result strings.Builder
	for _, letter := range text {
		switch {
		case letter >= 0x7f && letter <= 0x9f, letter == 0xfeff, letter == 0xfffe, letter == 0xffff:
			fmt.Fprintf(&result, `\u%04x`, letter)
		default:
			result.WriteRune(letter)
		}
	}
	return result.String()
}

// Mentions returns the texts of the document that could name other resources.
func (d *Document) Mentions() []string {
	var found []string
	place, _ := d.Metadata[d.Kind.Scope()].(string)
	visit := func(text string) {
		if text != "" && utf8.RuneCountInString(text) <= maxName {
			found = append(found, text)
			if place != "" {
				// Services of one cluster name each other without it.
				found = append(found, place+"/"+text)
			}
		}
	}
	for _, key := range []string{d.Kind.Scope(), "project"} {
		if text, ok := d.Metadata[key].(string); ok {
			found = append(found, text)
		}
	}
	eachText(d.Spec, visit)
	return found
}

const maxName = 2048

func eachText(value any, visit func(string)) {
	switch value := value.(type) {
	case string:
		visit(value)
	case []any:
		for _, item := range value {
			eachText(item, visit)
		}
	case map[string]any:
		for key, item := range value {
			visit(key)
			eachText(item, visit)
		}
	}
}

// Step is one step of a path to an attribute: a field, a key of a map, or a position in a list.
type Step struct {
	Field    string
	MapKey   string
	Position int
	InList   bool
}

var part = regexp.MustCompile(`[^.\[\]]+`)

// Attribute returns the path of the attribute that the control plane names as a field, such as
// "spec.sources[0].folder". It ends where the attribute of Terraform is one value.
func (k *Kind) Attribute(path string) []Step {
	parts := part.FindAllString(path, -1)
	if len(parts) < 2 {
		return nil
	}
	inside := Type{Shape: Object, Fields: k.Spec}
	if parts[0] == "metadata" {
		inside.Fields = k.Metadata
	}
	var steps []Step
	for _, name := range parts[1:] {
		step, next := inside.step(name)
		if next == nil {
			break
		}
		steps = append(steps, step)
		inside = *next
	}
	return steps
}

func (t *Type) step(name string) (Step, *Type) {
	switch t.Shape {
	case Object:
		for _, field := range t.Fields {
			if field.Key == name {
				return Step{Field: field.Name}, &field.Type
			}
		}
	case Map:
		return Step{MapKey: name}, t.Item
	case List:
		if position, err := strconv.Atoi(name); err == nil {
			return Step{Position: position, InList: true}, t.Item
		}
	}
	return Step{}, nil
}
