// Package api calls the GraphQL API of the control plane.
package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	maxAnswer   = 64 << 20
	maxAttempts = 5
	maxPause    = 30 * time.Second
	timeout     = 5 * time.Minute
)

// Settings are the address of the control plane and the caller's credentials.
type Settings struct {
	URL    string
	Token  string
	CAFile string
	// Version is the version of the provider.
	Version string
}

// Client calls the control plane.
type Client struct {
	address string
	token   string
	agent   string
	http    *http.Client
}

// Error is an error of the API.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string {
	return e.Message
}

// IsNotFound returns whether a resource does not exist, or is hidden from the caller.
func IsNotFound(err error) bool {
	var found *Error
	return errors.As(err, &found) && found.Code == "NOT_FOUND"
}

// NewClient returns a client, and an error for settings that cannot work.
func NewClient(settings Settings) (*Client, error) {
	address, err := normalURL(settings.URL)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if settings.CAFile != "" {
		pool, err := authorities(settings.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: refuseRedirect}
	agent := "terraform-provider-towline/" + settings.Version
	return &Client{address: address + "/gql", token: settings.Token, agent: agent, http: client}, nil
}

func normalURL(given string) (string, error) {
	full := given
	if !strings.Contains(full, "://") {
		full = "https://" + full
	}
	parsed, err := url.Parse(full)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" {
		return "", fmt.Errorf("%q is not an http or https URL", given)
	}
	return strings.TrimRight(full, "/"), nil
}

func authorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the CA certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no certificate in PEM", path)
	}
	return pool, nil
}

// refuseRedirect keeps the token at the address that the user has configured.
func refuseRedirect(request *http.Request, _ []*http.Request) error {
	return fmt.Errorf("the control plane redirects to %s: set url to its address", request.URL.Host)
}

// call runs an operation and decodes its data. The control plane executed nothing if it answers 429
// or 503, so these are tried again.
func (c *Client) call(ctx context.Context, query string, variables map[string]any, data any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		answer, pause, err := c.post(ctx, body)
		if err == nil {
			return decode(answer, data)
		}
		if pause == 0 || attempt == maxAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// post returns the answer, or an error and the time after which another attempt can succeed.
func (c *Client) post(ctx context.Context, body []byte) ([]byte, time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", c.agent)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot reach the control plane: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("the answer of the control plane broke off: %w", err)
	case len(answer) > maxAnswer:
		return nil, 0, fmt.Errorf("the control plane answered with more than %d bytes", maxAnswer)
	case response.StatusCode == http.StatusTooManyRequests, response.StatusCode == http.StatusServiceUnavailable:
		return nil, pauseOf(response), fmt.Errorf("the control plane is overloaded (status %d)", response.StatusCode)
	case response.StatusCode == http.StatusUnauthorized:
		return nil, 0, errors.New("the control plane refused the token: create one with `towline tokens create`")
	case response.StatusCode != http.StatusOK:
		return nil, 0, fmt.Errorf("%s answered with status %d: check that url is the address of a control plane", c.address, response.StatusCode)
	}
	return answer, 0, nil
}

func pauseOf(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		seconds = 1
	}
	return min(time.Duration(seconds)*time.Second, maxPause)
}

func decode(answer []byte, data any) error {
	var envelope struct {
		Data   json.RawMessage `json:"data"`
		Errors []struct {
			Message    string `json:"message"`
			Extensions struct {
				Code string `json:"code"`
			} `json:"extensions"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return fmt.Errorf("the control plane answered without JSON: check url: %w", err)
	}
	if len(envelope.Errors) > 0 {
		first := envelope.Errors[0]
		return &Error{Code: first.Extensions.Code, Message: first.Message}
	}
	return json.Unmarshal(envelope.Data, data)
}
