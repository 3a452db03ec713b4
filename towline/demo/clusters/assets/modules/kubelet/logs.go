package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// written is how many lines a container has written before anyone asks.
const written = 100

// serveLogs answers with the lines written so far; with follow, then with one more each second
// until the caller leaves. tailLines, limitBytes and timestamps work as in a kubelet.
func serveLogs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	line := func(number int) string {
		text := fmt.Sprintf("line %d of %s/%s\n", number, r.PathValue("pod"), r.PathValue("container"))
		if query.Get("timestamps") != "true" {
			return text
		}
		at := time.Date(2026, 1, 1, 0, 0, number, 0, time.UTC)
		return at.Format(time.RFC3339Nano) + " " + text
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, past(line, query.Get("tailLines"), query.Get("limitBytes")))
	if query.Get("follow") == "true" {
		follow(w, r, line)
	}
}

func past(line func(int) string, tailLines, limitBytes string) string {
	first := 1
	if tail, err := strconv.Atoi(tailLines); err == nil && tail < written {
		first = written - tail + 1
	}
	var text strings.Builder
	for number := first; number <= written; number++ {
		text.WriteString(line(number))
	}
	if limit, err := strconv.Atoi(limitBytes); err == nil && limit < text.Len() {
		return text.String()[:limit]
	}
	return text.String()
}

func follow(w http.ResponseWriter, r *http.Request, line func(int) string) {
	flusher := http.NewResponseController(w)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for number := written + 1; ; number++ {
		if flusher.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			_, _ = io.WriteString(w, line(number))
		}
	}
}
