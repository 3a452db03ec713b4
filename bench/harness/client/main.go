// Command client repeats one GET over TLS at full speed, one request at a time per connection, and
// prints the number of requests and bytes, the seconds, and percentiles of the latency as JSON.
// With -connect, each connection first asks the server for a tunnel to that address. With -http2,
// the requests are streams of that many HTTP/2 connections. With -upload, they are POSTs of that
// many bytes, over HTTP/1.1.
package main

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

type result struct {
	Requests int     `json:"requests"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

// piece is sent again and again by uploads; nothing on the way can compress it.
var piece = make([]byte, 64<<10)

func init() {
	if _, err := rand.Read(piece); err != nil {
		log.Fatal(err)
	}
}

// asker sends one request, and returns its response.
type asker func() (*http.Response, error)

type worker struct {
	send      asker
	upload    int64
	bytes     int64
	latencies []time.Duration
}

func main() {
	address := flag.String("address", "", "host and port of the server")
	authority := flag.String("ca", "", "PEM file of the CA")
	certificate := flag.String("cert", "", "PEM file of the client certificate")
	key := flag.String("key", "", "PEM file of its key")
	connect := flag.String("connect", "", "host and port to ask a tunnel for")
	path := flag.String("path", "/", "path of the request")
	token := flag.String("token", "", "bearer token")
	connections := flag.Int("connections", 1, "number of connections, or of requests at a time")
	http2 := flag.Int("http2", 0, "number of HTTP/2 connections")
	upload := flag.Int64("upload", 0, "bytes to send with each request")
	warmUp := flag.Duration("warm-up", 300*time.Millisecond, "time that is not counted")
	duration := flag.Duration("duration", time.Second, "time that is counted")
	flag.Parse()

	config := tlsConfig(*authority, *certificate, *key)
	request := "GET " + *path + " HTTP/1.1\r\nHost: bench\r\n"
	if *upload > 0 {
		request = fmt.Sprintf("POST %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n", *path, *upload)
	}
	if *token != "" {
		request += "Authorization: Bearer " + *token + "\r\n"
	}
	workers := make([]*worker, *connections)
	shared := make([]asker, *http2)
	for i := range shared {
		shared[i] = openHTTP2("https://"+*address+*path, config, *token)
	}
	for i := range workers {
		if *http2 > 0 {
			workers[i] = &worker{send: shared[i%*http2]}
		} else {
			workers[i] = &worker{send: open(*address, config, *connect, []byte(request+"\r\n"), *upload), upload: *upload}
		}
	}
	all(workers, *warmUp)
	fmt.Println("counting")
	took := all(workers, *duration)
	if err := json.NewEncoder(os.Stdout).Encode(summary(workers, took)); err != nil {
		log.Fatal(err)
	}
}

func tlsConfig(authority, certificate, key string) *tls.Config {
	pem, err := os.ReadFile(authority)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			log.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func openHTTP2(url string, config *tls.Config, token string) asker {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: config.RootCAs},
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
	}}
	return func() (*http.Response, error) {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err == nil && response.ProtoMajor != 2 {
			return nil, fmt.Errorf("the server answered with %s", response.Proto)
		}
		return response, err
	}
}

func open(address string, config *tls.Config, connect string, request []byte, upload int64) asker {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		log.Fatal(err)
	}
	reader := bufio.NewReaderSize(conn, 64<<10)
	if connect != "" {
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", connect, connect)
		response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
		if err != nil || response.StatusCode != http.StatusOK {
			log.Fatalf("no tunnel to %s: %v %v", connect, response, err)
		}
	}
	return func() (*http.Response, error) {
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		for left := upload; left > 0; left -= int64(len(piece)) {
			if _, err := conn.Write(piece[:min(left, int64(len(piece)))]); err != nil {
				return nil, err
			}
		}
		return http.ReadResponse(reader, nil)
	}
}

// all runs the workers for a time, and returns the seconds until the last response.
func all(workers []*worker, duration time.Duration) float64 {
	began := time.Now()
	var group sync.WaitGroup
	for _, w := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			w.bytes, w.latencies = 0, w.latencies[:0]
			for time.Since(began) < duration {
				w.ask()
			}
		}()
	}
	group.Wait()
	return time.Since(began).Seconds()
}

func (w *worker) ask() {
	began := time.Now()
	response, err := w.send()
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		log.Fatalf("unexpected response: %s", response.Status)
	}
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	w.bytes += n + w.upload
	w.latencies = append(w.latencies, time.Since(began))
}

func summary(workers []*worker, seconds float64) result {
	var latencies []time.Duration
	total := result{Seconds: seconds}
	for _, w := range workers {
		latencies = append(latencies, w.latencies...)
		total.Bytes += w.bytes
	}
	slices.Sort(latencies)
	total.Requests = len(latencies)
	total.P50 = latencies[len(latencies)/2].Seconds()
	total.P99 = latencies[len(latencies)*99/100].Seconds()
	return total
}
