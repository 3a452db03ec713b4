module towline.dev/clusters/kubelet

go 1.26.0

require (
	github.com/creack/pty v1.1.24
	k8s.io/cri-streaming v0.36.3
	k8s.io/utils v0.0.0-20260707023825-cf1189d6abe3
)

require (
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/moby/spdystream v0.5.1 // indirect
	golang.org/x/net v0.61.0 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/streaming v0.36.3 // indirect
)

replace k8s.io/streaming => k8s.io/streaming v0.36.3
