package provider

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/towline/terraform-provider-towline/internal/api"
	"github.com/towline/terraform-provider-towline/internal/manifest"
)

// problemDiagnostics returns the problems of a document as errors at its attributes.
func problemDiagnostics(document *manifest.Document, plan *api.Plan) diag.Diagnostics {
	var found diag.Diagnostics
	for _, conflict := range conflictsOf(document, plan) {
		detail := fmt.Sprintf("The manager %q has set %s to another value. Remove the attribute, agree on one manager, or set %s = true.",
			conflict.Owner, conflict.Path, forceAttribute)
		found.Append(diagnosticAt(document.Kind, conflict.Path, "Field of another manager", detail))
	}
	hasConflicts := found.HasError()
	for _, problem := range plan.Problems {
		isOwn := problem.Document == "" || problem.Document == document.Title()
		if isOwn && !(hasConflicts && problem.Code == "CONFLICT" && problem.Field == "spec") {
			detail := sentence(explained(problem))
			if steps := document.Kind.Attribute(problem.Field); len(steps) > 0 {
				// Terraform shows the line of the outermost attribute alone.
				detail = pathOf(steps).String() + ": " + detail
			}
			found.Append(diagnosticAt(document.Kind, problem.Field, summaryOf(problem, document), detail))
		}
	}
	return found
}

func conflictsOf(document *manifest.Document, plan *api.Plan) []api.Conflict {
	if item := itemOf(document, plan); item != nil && len(plan.Problems) > 0 {
		return item.Conflicts
	}
	return nil
}

// itemOf returns the effect on the resource of a document; nil if the plan has none.
func itemOf(document *manifest.Document, plan *api.Plan) *api.Item {
	for n, item := range plan.Items {
		if item.Kind == document.Kind.Name && item.Name == document.Key() {
			return &plan.Items[n]
		}
	}
	return nil
}

func summaryOf(problem api.Problem, document *manifest.Document) string {
	switch problem.Code {
	case "FORBIDDEN":
		return "No permission for " + document.Title()
	case "NOT_FOUND":
		return "Reference to a missing resource"
	}
	return document.Title() + " is refused"
}

// explained returns the message without its field, and with advice.
func explained(problem api.Problem) string {
	field := strings.TrimPrefix(problem.Field, "spec.")
	text := strings.TrimPrefix(strings.TrimPrefix(problem.Message, field), ": ")
	if problem.Code == "NOT_FOUND" {
		text += ". To create it in the same run, refer to its resource, such as towline_cluster.example.name"
	}
	return text
}

// diagnosticAt returns an error at the attribute of a field, or at the resource for none.
func diagnosticAt(kind *manifest.Kind, field, summary, detail string) diag.Diagnostic {
	steps := kind.Attribute(field)
	if len(steps) == 0 {
		return diag.NewErrorDiagnostic(summary, detail)
	}
	return diag.NewAttributeErrorDiagnostic(pathOf(steps), summary, detail)
}

func pathOf(steps []manifest.Step) path.Path {
	found := path.Root(steps[0].Field)
	for _, step := range steps[1:] {
		switch {
		case step.InList:
			found = found.AtListIndex(step.Position)
		case step.MapKey != "":
			found = found.AtMapKey(step.MapKey)
		default:
			found = found.AtName(step.Field)
		}
	}
	return found
}

// sentence returns a message with a capital letter and a full stop.
func sentence(message string) string {
	letter, size := utf8.DecodeRuneInString(message)
	message = string(unicode.ToUpper(letter)) + message[size:]
	if !strings.HasSuffix(message, ".") {
		message += "."
	}
	return message
}
