// Command kubelet answers what an API server asks a node's kubelet for on behalf of its users:
// logs, exec, attach and port-forward of pods that exist only on paper.
//
// A command runs as a local process in a folder of its own and with an empty environment; its
// streams, terminal and exit code are real. A port answers with a small web page, or is a port
// of this machine (-local-ports).
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	idleLimit  = 4 * time.Hour
	setupLimit = 30 * time.Second
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	cert := flag.String("cert", "", "file of the serving certificate")
	key := flag.String("key", "", "file of its key")
	clientCA := flag.String("client-ca", "", "file of the authority that signed the API server's client certificate")
	home := flag.String("home", "", "folder that holds a working folder for each pod")
	localPorts := flag.Bool("local-ports", false, "a pod's port is the same port of this machine where something listens on it")
	flag.Parse()

	trusted, err := trust(*clientCA)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:              *listen,
		Handler:           routes(&pods{home: *home, localPorts: *localPorts}),
		ReadHeaderTimeout: 10 * time.Second,
		// SPDY upgrades need HTTP/1.1.
		TLSConfig: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted, NextProtos: []string{"http/1.1"}},
	}
	log.Fatal(server.ListenAndServeTLS(*cert, *key))
}

func trust(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool, nil
}

func routes(p *pods) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", serveLogs)
	// WebSocket upgrades come as GET, SPDY upgrades as POST.
	for _, method := range []string{"GET", "POST"} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", p.serveExec)
		mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", p.serveAttach)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", p.servePortForward)
	}
	return mux
}

func (p *pods) serveExec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, p, podName(r), "", r.PathValue("container"), r.URL.Query()["command"],
		options, idleLimit, setupLimit, remotecommand.SupportedStreamingProtocols)
}

func (p *pods) serveAttach(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, r, p, podName(r), "", r.PathValue("container"),
		options, idleLimit, setupLimit, remotecommand.SupportedStreamingProtocols)
}

func (p *pods) servePortForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, p, podName(r), "", options, idleLimit, setupLimit, portforward.SupportedProtocols)
}

// podName is namespace/pod: unique in the cluster, and the pod's folder below home.
func podName(r *http.Request) string {
	return r.PathValue("namespace") + "/" + r.PathValue("pod")
}
