package provider

import (
	"context"
	"net/http"
	"strings"
	"testing"

	data "github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/towline/terraform-provider-towline/internal/api"
	"github.com/towline/terraform-provider-towline/internal/manifest"
	"github.com/towline/terraform-provider-towline/internal/values"
)

const (
	cluster = "towline_cluster"
	secret  = "towline_secret"
	service = "towline_service"
)

func tags(given map[string]string) tftypes.Value {
	items := map[string]tftypes.Value{}
	for key, value := range given {
		items[key] = text(value)
	}
	return tftypes.NewValue(tftypes.Map{ElementType: tftypes.String}, items)
}

func webService() attributes {
	return attributes{"name": text("web"), "cluster": text("eu-1"), "namespace": text("shop")}
}

// onlyError returns the one error of an answer.
func onlyError(t *testing.T, found []*tfprotov6.Diagnostic) *tfprotov6.Diagnostic {
	t.Helper()
	if len(found) != 1 {
		t.Fatalf("got %d errors: %v", len(found), found)
	}
	return found[0]
}

func TestSchemasOfAllKindsAreValid(t *testing.T) {
	ctx := context.Background()
	kinds, err := manifest.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	towline := New("test", kinds)()
	if found := len(towline.Resources(ctx)); found != len(kinds) || found != len(towline.DataSources(ctx)) {
		t.Errorf("%d resources for %d kinds", found, len(kinds))
	}
	for _, make := range towline.Resources(ctx) {
		var response resource.SchemaResponse
		make().Schema(ctx, resource.SchemaRequest{}, &response)
		if found := response.Schema.ValidateImplementation(ctx); found.HasError() {
			t.Error(found)
		}
	}
	for _, make := range towline.DataSources(ctx) {
		var response data.SchemaResponse
		make().Schema(ctx, data.SchemaRequest{}, &response)
		if found := response.Schema.ValidateImplementation(ctx); found.HasError() {
			t.Error(found)
		}
	}
	var settings provider.SchemaResponse
	towline.Schema(ctx, provider.SchemaRequest{}, &settings)
	if found := settings.Schema.ValidateImplementation(ctx); found.HasError() {
		t.Error(found)
	}
}

func TestAResourceIsCreatedReadChangedAndDeleted(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	state := d.apply(cluster, d.none(cluster), attributes{"name": text("eu-1"), "tags": tags(map[string]string{"env": "prod"})})
	if id := d.attribute(cluster, state, "id"); id != "eu-1" {
		t.Errorf("the id is %s", id)
	}
	if read := d.read(cluster, state).NewState; !d.value(cluster, read).Equal(d.value(cluster, state)) {
		t.Error("a refresh changed the state")
	}
	plane.documents["Cluster eu-1"]["spec"] = map[string]any{"tags": map[string]any{"env": "test"}}
	read := d.read(cluster, state).NewState
	if d.value(cluster, read).Equal(d.value(cluster, state)) {
		t.Error("a refresh found no drift")
	}
	state = d.apply(cluster, read, attributes{"name": text("eu-1"), "tags": tags(map[string]string{"env": "prod"})})
	d.ok(d.destroy(cluster, state))
	if len(plane.documents) != 0 {
		t.Error("the cluster was not deleted")
	}
	if !d.value(cluster, d.read(cluster, state).NewState).IsNull() {
		t.Error("a deleted cluster is still in the state")
	}
}

func TestSecretsStayOutOfTheState(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	given := attributes{"name": text("database"), "value": text("pa55word")}
	state := d.apply(secret, d.none(secret), given)
	if plane.secrets["Secret database"] != "pa55word" {
		t.Error("the value was not sent")
	}
	if strings.Contains(string(state.MsgPack), "pa55word") || d.attribute(secret, state, "value") != "null" {
		t.Error("the state has the value")
	}
	if revision := d.attribute(secret, state, revisionAttribute); revision != "1" {
		t.Errorf("the revision is %s", revision)
	}
	plan := d.plan(secret, state, given)
	d.ok(plan.Diagnostics)
	if !d.value(secret, plan.PlannedState).Equal(d.value(secret, state)) {
		t.Error("an equal value is a change")
	}
	given["value"] = text("chang3d")
	state = d.apply(secret, state, given)
	if d.attribute(secret, state, revisionAttribute) != "2" || plane.secrets["Secret database"] != "chang3d" {
		t.Error("the changed value was not sent")
	}
}

func TestAnUnknownSecretLeavesTheRevisionOpen(t *testing.T) {
	_, url := newControlPlane(t)
	d := newDriver(t, url)
	state := d.apply(secret, d.none(secret), attributes{"name": text("database"), "value": text("pa55word")})
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	plan := d.plan(secret, state, attributes{"name": text("database"), "value": unknown})
	d.ok(plan.Diagnostics)
	if d.attribute(secret, plan.PlannedState, revisionAttribute) != "unknown" {
		t.Error("Terraform would not send the secret")
	}
}

func TestProblemsOfTheControlPlaneStandAtTheirAttributes(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	plane.problems["Cluster eu-1"] = api.Problem{Message: "must be short", Field: "spec.displayName", Code: "INVALID"}
	found := onlyError(t, d.plan(cluster, d.none(cluster), attributes{"name": text("eu-1"), "display_name": text("x")}).Diagnostics)
	if found.Attribute.String() != `AttributeName("display_name")` || found.Detail != "display_name: Must be short." {
		t.Errorf("%v: %s", found.Attribute, found.Detail)
	}
}

func TestAConflictNamesTheOtherManager(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	given := attributes{"name": text("eu-1"), "tags": tags(map[string]string{"env": "prod"})}
	state := d.apply(cluster, d.none(cluster), given)
	plane.conflicts["Cluster eu-1"] = api.Conflict{Path: "spec.tags.env", Owner: "git"}
	given["tags"] = tags(map[string]string{"env": "test"})
	found := onlyError(t, d.plan(cluster, state, given).Diagnostics)
	if !strings.Contains(found.Detail, `The manager "git" has set spec.tags.env`) ||
		found.Attribute.String() != `AttributeName("tags").ElementKeyString("env")` {
		t.Errorf("%v: %s", found.Attribute, found.Detail)
	}
	given[forceAttribute] = tftypes.NewValue(tftypes.Bool, true)
	d.apply(cluster, state, given)
}

func TestAnExistingResourceIsImportedInsteadOfAdopted(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	plane.store("Cluster eu-1", `{"metadata": {"name": "eu-1"}, "spec": {"displayName": "Europe", "tags": {}}}`)
	found := onlyError(t, d.plan(cluster, d.none(cluster), attributes{"name": text("eu-1")}).Diagnostics)
	if !strings.Contains(found.Detail, "terraform import towline_cluster.NAME eu-1") {
		t.Error(found.Detail)
	}
	answer := d.importState(cluster, "eu-1")
	d.ok(answer.Diagnostics)
	state := answer.ImportedResources[0].State
	if d.attribute(cluster, state, "display_name") != "Europe" || d.attribute(cluster, state, "project") != "null" {
		t.Error("the import has not the fields of the cluster")
	}
	if failed := onlyError(t, d.importState(service, "web").Diagnostics); !strings.Contains(failed.Detail, "CLUSTER/NAME") {
		t.Error(failed.Detail)
	}
	if failed := onlyError(t, d.importState(cluster, "us-1").Diagnostics); failed.Summary != "Cannot import Cluster us-1" {
		t.Error(failed.Summary)
	}
}

func TestANewResourceIsPlannedWithTheNewOnesThatItMentions(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	d.ok(d.plan("towline_project", d.none("towline_project"), attributes{"name": text("shop")}).Diagnostics)
	d.ok(d.plan("towline_project", d.none("towline_project"), attributes{"name": text("other")}).Diagnostics)
	d.ok(d.plan(cluster, d.none(cluster), attributes{"name": text("eu-1"), "project": text("shop")}).Diagnostics)
	plane.requests = nil
	d.ok(d.plan(service, d.none(service), webService()).Diagnostics)
	sent := strings.Join(plane.requests, "\n")
	for title, wanted := range map[string]bool{"Cluster eu-1": true, "Project shop": true, "Project other": false} {
		if strings.Contains(sent, `"file":"`+title+`"`) != wanted {
			t.Errorf("%s is in the plan: %v", title, !wanted)
		}
	}
}

func TestAChangeOfAnImmutableFieldReplacesTheResource(t *testing.T) {
	_, url := newControlPlane(t)
	d := newDriver(t, url)
	state := d.apply(service, d.none(service), webService())
	given := webService()
	given["namespace"] = text("other")
	plan := d.plan(service, state, given)
	d.ok(plan.Diagnostics)
	if len(plan.RequiresReplace) != 1 || plan.RequiresReplace[0].String() != `AttributeName("namespace")` {
		t.Errorf("got %v", plan.RequiresReplace)
	}
	// Terraform then plans the new resource, while the old one still exists.
	d.ok(d.plan(service, d.none(service), given).Diagnostics)
	old := attributes{"name": text("database"), "value": text("pa55word")}
	state = d.apply(secret, d.none(secret), old)
	old["name"] = text("other")
	d.ok(d.plan(secret, state, old).Diagnostics)
	if plan := d.plan(secret, d.none(secret), old); d.attribute(secret, plan.PlannedState, revisionAttribute) != "1" {
		t.Error("Terraform would create the new secret with another revision")
	}
}

func TestAnAttributeThatLeavesTheConfigurationReplacesNothing(t *testing.T) {
	_, url := newControlPlane(t)
	d := newDriver(t, url)
	given := webService()
	state := d.apply(service, d.none(service), given)
	delete(given, "namespace")
	given["ref"] = text("v2")
	if plan := d.plan(service, state, given); len(plan.RequiresReplace) != 0 {
		t.Errorf("got %v", plan.RequiresReplace)
	}
}

func TestADeletionThatIsForbiddenFailsInThePlan(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	state := d.apply(cluster, d.none(cluster), attributes{"name": text("eu-1")})
	plane.problems["Cluster eu-1"] = api.Problem{Message: "services use it", Code: "CONFLICT"}
	d.ok(d.planDestroy(cluster, state))
	if found := onlyError(t, d.destroy(cluster, state)); found.Detail != "Services use it." {
		t.Error(found.Detail)
	}
	plane.problems["Cluster eu-1"] = api.Problem{Message: "you may not delete it", Code: "FORBIDDEN"}
	if found := onlyError(t, d.planDestroy(cluster, state)); found.Summary != "No permission for Cluster eu-1" {
		t.Error(found.Summary)
	}
}

func TestAStateSurvivesFailures(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	state := d.apply(cluster, d.none(cluster), attributes{"name": text("eu-1")})
	for _, failure := range []func(http.ResponseWriter){
		func(response http.ResponseWriter) { refuse(response, "FORBIDDEN", "you may not read it") },
		func(response http.ResponseWriter) { refuse(response, "UNAUTHENTICATED", "the token has expired") },
		func(response http.ResponseWriter) { response.WriteHeader(http.StatusUnauthorized) },
		func(response http.ResponseWriter) { response.WriteHeader(http.StatusBadGateway) },
		func(response http.ResponseWriter) { _, _ = response.Write([]byte("<html>")) },
	} {
		plane.failure = failure
		answer := d.read(cluster, state)
		onlyError(t, answer.Diagnostics)
		if answer.NewState == nil || d.value(cluster, answer.NewState).IsNull() {
			t.Error("the state is lost")
		}
	}
}

func TestJSONTextsAreChecked(t *testing.T) {
	_, url := newControlPlane(t)
	d := newDriver(t, url)
	answer, err := d.server.ValidateResourceConfig(context.Background(), &tfprotov6.ValidateResourceConfigRequest{
		TypeName:           cluster,
		Config:             d.object(d.schema.ResourceSchemas[cluster], attributes{"name": text("eu-1"), "metadata": text("{zone")}),
		ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if found := onlyError(t, answer.Diagnostics); !strings.Contains(found.Detail, "jsonencode") {
		t.Error(found.Detail)
	}
}

func TestMissingSettingsAreNamed(t *testing.T) {
	for _, name := range []string{"TOWLINE_URL", "TOWLINE_TOKEN", "TOWLINE_CA_FILE"} {
		t.Setenv(name, "")
	}
	_, url := newControlPlane(t)
	d := newDriver(t, url)
	answer, err := d.server.ConfigureProvider(context.Background(), &tfprotov6.ConfigureProviderRequest{
		Config: d.object(d.schema.Provider, attributes{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var details []string
	for _, found := range answer.Diagnostics {
		details = append(details, found.Detail)
	}
	if text := strings.Join(details, " "); !strings.Contains(text, "TOWLINE_URL") || !strings.Contains(text, "TOWLINE_TOKEN") {
		t.Error(text)
	}
}

func TestTheDataSourceOfAServiceSaysWhyItFails(t *testing.T) {
	plane, url := newControlPlane(t)
	d := newDriver(t, url)
	plane.store("Service eu-1/web", `{"metadata": {"name": "web", "cluster": "eu-1"}, "spec": {"namespace": "shop"}}`)
	plane.store("Service eu-1/bare", `{"metadata": {"name": "bare", "cluster": "eu-1"}}`)
	problem := map[string]any{"source": "render", "reason": "NOT_FOUND", "message": "no such folder", "lasting": true}
	plane.status = map[string]any{"state": "FAILED", "sha": nil, "message": nil, "errors": []any{problem}}
	for _, name := range []string{"web", "bare"} {
		found := values.Attributes(d.data(service, attributes{"name": text(name), "cluster": text("eu-1")})["status"])
		var state string
		if err := found["state"].As(&state); err != nil || state != "FAILED" || !found["sha"].IsNull() {
			t.Errorf("got %v (%v)", found, err)
		}
		var problems []tftypes.Value
		if err := found["errors"].As(&problems); err != nil || len(problems) != 1 {
			t.Fatalf("got %v (%v)", problems, err)
		}
		var reason string
		var lasting bool
		inner := values.Attributes(problems[0])
		if inner["reason"].As(&reason) != nil || inner["lasting"].As(&lasting) != nil || reason != "NOT_FOUND" || !lasting {
			t.Errorf("got %v", inner)
		}
	}
	plane.store("Cluster eu-1", `{"metadata": {"name": "eu-1"}}`)
	if _, exists := d.data(cluster, attributes{"name": text("eu-1")})["status"]; exists {
		t.Error("only services have a status")
	}
}
