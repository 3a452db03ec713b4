package api

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/towline/terraform-provider-towline/internal/manifest"
)

const token = "s3cret-t0ken"

func clientOf(t *testing.T, settings Settings) *Client {
	t.Helper()
	settings.Token = token
	client, err := NewClient(settings)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func readCluster(t *testing.T, client *Client) (*manifest.Document, error) {
	t.Helper()
	return client.Read(context.Background(), &manifest.Kind{Name: "Cluster"}, "eu-1", true)
}

// answering returns the address of a server with one answer.
func answering(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		response.WriteHeader(status)
		_, _ = response.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const found = `{"data": {"manifest": "{\"metadata\": {\"name\": \"eu-1\"}, \"spec\": {}}"}}`

func TestAResourceIsRead(t *testing.T) {
	document, err := readCluster(t, clientOf(t, Settings{URL: answering(t, 200, found) + "/"}))
	if err != nil || document.Metadata["name"] != "eu-1" {
		t.Errorf("%v, %v", document, err)
	}
}

func TestErrorsSayWhatToDoAndKeepTheToken(t *testing.T) {
	for _, test := range []struct {
		status   int
		body     string
		expected string
	}{
		{401, "", "towline tokens create"},
		{404, "", "check that url"},
		{200, "<html>", "check url"},
		{200, `{"errors": [{"message": "you may not", "extensions": {"code": "FORBIDDEN"}}]}`, "you may not"},
	} {
		_, err := readCluster(t, clientOf(t, Settings{URL: answering(t, test.status, test.body)}))
		if err == nil || !strings.Contains(err.Error(), test.expected) || strings.Contains(err.Error(), token) {
			t.Errorf("%d: %v", test.status, err)
		}
		if IsNotFound(err) {
			t.Errorf("%d is taken for a missing resource", test.status)
		}
	}
}

func TestAMissingResourceIsToldFromOtherErrors(t *testing.T) {
	body := `{"errors": [{"message": "gone", "extensions": {"code": "NOT_FOUND"}}], "data": null}`
	if _, err := readCluster(t, clientOf(t, Settings{URL: answering(t, 200, body)})); !IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestTheTokenFollowsNoRedirect(t *testing.T) {
	var visits atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	_, err := readCluster(t, clientOf(t, Settings{URL: server.URL}))
	if err == nil || !strings.Contains(err.Error(), "set url to its address") || visits.Load() != 0 {
		t.Errorf("%v, %d visits", err, visits.Load())
	}
}

func TestAnOverloadedControlPlaneIsAskedAgain(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Authorization") != "Bearer "+token {
			t.Error("the token is missing")
		}
		if requests.Add(1) == 1 {
			response.Header().Set("Retry-After", "1")
			response.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = response.Write([]byte(found))
	}))
	defer server.Close()
	if _, err := readCluster(t, clientOf(t, Settings{URL: server.URL})); err != nil || requests.Load() != 2 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

func TestOnlyTheGivenCAIsTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		_, _ = response.Write([]byte(found))
	}))
	defer server.Close()
	if _, err := readCluster(t, clientOf(t, Settings{URL: server.URL})); err == nil {
		t.Error("an unknown certificate is trusted")
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readCluster(t, clientOf(t, Settings{URL: server.URL, CAFile: path})); err != nil {
		t.Error(err)
	}
}

func TestSettingsThatCannotWork(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, settings := range []Settings{
		{URL: "ftp://towline.example.org"}, {URL: "https://"}, {URL: "https://x", CAFile: empty},
		{URL: "https://x", CAFile: filepath.Join(t.TempDir(), "missing.pem")},
	} {
		if _, err := NewClient(settings); err == nil {
			t.Errorf("%+v is accepted", settings)
		}
	}
}
