package provider

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/towline/terraform-provider-towline/internal/api"
)

// controlPlane is an API over documents in memory, with as much of its plan as the tests need.
type controlPlane struct {
	t         *testing.T
	lock      sync.Mutex
	documents map[string]map[string]any
	secrets   map[string]string
	// problems and conflicts of the next plans, by title of the document.
	problems  map[string]api.Problem
	conflicts map[string]api.Conflict
	// status of all services.
	status map[string]any
	// requests are the bodies that arrived.
	requests []string
	// failure is the answer to all requests. Nil: they succeed.
	failure func(http.ResponseWriter)
}

func newControlPlane(t *testing.T) (*controlPlane, string) {
	t.Helper()
	plane := &controlPlane{
		t: t, documents: map[string]map[string]any{}, secrets: map[string]string{},
		problems: map[string]api.Problem{}, conflicts: map[string]api.Conflict{},
	}
	server := httptest.NewServer(plane)
	t.Cleanup(server.Close)
	return plane, server.URL
}

type request struct {
	Query     string `json:"query"`
	Variables struct {
		Sources []struct{ File, Content string } `json:"sources"`
		Options struct {
			DryRun, Force bool
			Manager       string
		} `json:"options"`
		DryRun bool `json:"dryRun"`
	} `json:"variables"`
}

func (p *controlPlane) ServeHTTP(response http.ResponseWriter, incoming *http.Request) {
	p.lock.Lock()
	defer p.lock.Unlock()
	body, err := io.ReadAll(incoming.Body)
	if err != nil {
		p.t.Error(err)
	}
	p.requests = append(p.requests, string(body))
	if p.failure != nil {
		p.failure(response)
		return
	}
	var given request
	if err := json.Unmarshal(body, &given); err != nil {
		p.t.Error(err)
	}
	switch {
	case strings.Contains(given.Query, "applyManifests"):
		p.answer(response, "plan", p.apply(given))
	case strings.Contains(given.Query, "deleteManifests"):
		p.answer(response, "plan", p.delete(given))
	case strings.Contains(given.Query, "serviceDeployment"):
		p.answer(response, "service", p.status)
	default:
		p.read(response, body)
	}
}

func (p *controlPlane) answer(response http.ResponseWriter, name string, value any) {
	if err := json.NewEncoder(response).Encode(map[string]any{"data": map[string]any{name: value}}); err != nil {
		p.t.Error(err)
	}
}

func (p *controlPlane) apply(given request) api.Plan {
	var plan api.Plan
	for _, source := range given.Variables.Sources {
		plan.Items = append(plan.Items, p.itemOf(source.File, source.Content))
		if problem, exists := p.problems[source.File]; exists {
			problem.Document = source.File
			plan.Problems = append(plan.Problems, problem)
		}
		conflict, exists := p.conflicts[source.File]
		if exists && !given.Variables.Options.Force {
			last := &plan.Items[len(plan.Items)-1]
			last.Conflicts = []api.Conflict{conflict}
			problem := api.Problem{Message: "conflict", Code: "CONFLICT", Field: "spec", Document: source.File}
			plan.Problems = append(plan.Problems, problem)
		}
	}
	plan.Applied = len(plan.Problems) == 0 && !given.Variables.Options.DryRun
	for _, source := range given.Variables.Sources {
		if plan.Applied {
			p.store(source.File, source.Content)
		}
	}
	return plan
}

// itemOf returns the effect of a document; a value of a secret is a field named "value".
func (p *controlPlane) itemOf(title, content string) api.Item {
	kind, name, _ := strings.Cut(title, " ")
	item := api.Item{Action: "CREATE", Kind: kind, Name: name}
	secret := secretOf(p.t, content)
	if _, exists := p.documents[title]; exists {
		item.Action = "UPDATE"
		if secret == p.secrets[title] {
			return item
		}
	}
	if secret != "" {
		masked := mask
		item.Changes = []api.Change{{Path: "spec.value", After: &masked}}
	}
	return item
}

func secretOf(t *testing.T, content string) string {
	var document struct {
		Spec struct {
			Value string `json:"value"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(content), &document); err != nil {
		t.Error(err)
	}
	return document.Spec.Value
}

func (p *controlPlane) store(title, content string) {
	var document map[string]any
	if err := json.Unmarshal([]byte(content), &document); err != nil {
		p.t.Error(err)
	}
	p.secrets[title] = secretOf(p.t, content)
	if spec, ok := document["spec"].(map[string]any); ok {
		delete(spec, "value")
	}
	p.documents[title] = document
}

func (p *controlPlane) delete(given request) api.Plan {
	var plan api.Plan
	for _, source := range given.Variables.Sources {
		if problem, exists := p.problems[source.File]; exists {
			problem.Document = source.File
			plan.Problems = append(plan.Problems, problem)
		} else if !given.Variables.DryRun {
			delete(p.documents, source.File)
		}
	}
	return plan
}

func (p *controlPlane) read(response http.ResponseWriter, body []byte) {
	var given struct {
		Variables struct{ Kind, Name string } `json:"variables"`
	}
	if err := json.Unmarshal(body, &given); err != nil {
		p.t.Error(err)
	}
	document, exists := p.documents[given.Variables.Kind+" "+given.Variables.Name]
	if !exists {
		refuse(response, "NOT_FOUND", "it does not exist, or you may not read it")
		return
	}
	text, err := json.Marshal(document)
	if err != nil {
		p.t.Error(err)
	}
	p.answer(response, "manifest", string(text))
}

func refuse(response http.ResponseWriter, code, message string) {
	failure := map[string]any{"message": message, "extensions": map[string]any{"code": code}}
	_ = json.NewEncoder(response).Encode(map[string]any{"errors": []any{failure}, "data": nil})
}
