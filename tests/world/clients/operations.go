// The operations of the matrix with client-go: KUBECONFIG NAMESPACE.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

const set = "set=x"

type operation struct {
	name string
	run  func() (any, error)
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	client, namespace, all := kubernetes.NewForConfigOrDie(config), os.Args[2], context.Background()
	maps := client.CoreV1().ConfigMaps(namespace)
	configMap := func(name string) *core.ConfigMap {
		labels := map[string]string{"set": "x"}
		metadata := meta.ObjectMeta{Name: name, Labels: labels}
		return &core.ConfigMap{ObjectMeta: metadata, Data: map[string]string{"k": name}}
	}
	patch := func(kind types.PatchType, body string) (any, error) {
		found, err := maps.Patch(all, "a", kind, []byte(body), meta.PatchOptions{})
		if err != nil {
			return nil, err
		}
		return found.Data, nil
	}
	found := map[string]any{}
	for _, operation := range []operation{
		{"version", func() (any, error) {
			found, err := client.Discovery().ServerVersion()
			return found.GitVersion, err
		}},
		{"name with a colon", func() (any, error) {
			found, err := client.RbacV1().ClusterRoles().Get(all, "system:node", meta.GetOptions{})
			return found.Name, err
		}},
		{"create and get", func() (any, error) {
			for _, name := range []string{"a", "b", "c"} {
				if _, err := maps.Create(all, configMap(name), meta.CreateOptions{}); err != nil {
					return nil, err
				}
			}
			found, err := maps.Get(all, "b", meta.GetOptions{})
			return found.Data, err
		}},
		{"pages", func() (any, error) {
			options := meta.ListOptions{LabelSelector: set, Limit: 2}
			names := []string{}
			for {
				page, err := maps.List(all, options)
				if err != nil {
					return nil, err
				}
				for _, item := range page.Items {
					names = append(names, item.Name)
				}
				if options.Continue = page.Continue; options.Continue == "" {
					return names, nil
				}
			}
		}},
		{"JSON patch", func() (any, error) {
			return patch(types.JSONPatchType, `[{"op": "replace", "path": "/data/k", "value": "1"}]`)
		}},
		{"strategic merge patch", func() (any, error) {
			return patch(types.StrategicMergePatchType, `{"data": {"l": "2"}}`)
		}},
		{"conflict", func() (any, error) {
			_, err := maps.Create(all, configMap("a"), meta.CreateOptions{})
			return []any{409, errors.ReasonForError(err)}, nil
		}},
		{"watch", func() (any, error) {
			seconds := int64(2)
			options := meta.ListOptions{LabelSelector: set, TimeoutSeconds: &seconds}
			watched, err := maps.Watch(all, options)
			if err != nil {
				return nil, err
			}
			names := []string{}
			for event := range watched.ResultChan() {
				names = append(names, event.Object.(*core.ConfigMap).Name)
			}
			slices.Sort(names)
			return names, nil
		}},
		{"exec", func() (any, error) { return exec(config, client, namespace) }},
		{"logs", func() (any, error) {
			text, err := client.CoreV1().Pods(namespace).GetLogs("box", &core.PodLogOptions{}).DoRaw(all)
			return len(text) > 0, err
		}},
		{"delete many", func() (any, error) {
			options := meta.ListOptions{LabelSelector: set}
			return "ConfigMapList", maps.DeleteCollection(all, meta.DeleteOptions{}, options)
		}},
	} {
		result, err := operation.run()
		if err != nil {
			result = err.Error()
		}
		found[operation.name] = result
	}
	printed, _ := json.Marshal(found)
	fmt.Println(string(printed))
}

func exec(config *rest.Config, client *kubernetes.Clientset, namespace string) (any, error) {
	options := &core.PodExecOptions{Command: []string{"echo", "hello"}, Stdout: true}
	request := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name("box")
	request = request.SubResource("exec").VersionedParams(options, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	streams := remotecommand.StreamOptions{Stdout: &output}
	err = executor.StreamWithContext(context.Background(), streams)
	return output.String(), err
}
