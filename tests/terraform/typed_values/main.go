// Renders the chart in the folder given as argument, with the values that the Terraform provider
// sets. The deploy token is in a typed map, which Helm neither merges with the chart's defaults nor
// checks against a schema.
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func main() {
	log.SetFlags(0)
	chart, err := loader.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	given := map[string]any{
		"secrets":    map[string]string{"deployToken": "twa_typed"},
		"consoleUrl": "https://towline.example.org/ext/gql",
		"clusterId":  "c1",
	}
	release := chartutil.ReleaseOptions{Name: "deploy-operator", Namespace: "plrl-deploy-operator"}
	values, err := chartutil.ToRenderValues(chart, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		log.Fatal(err)
	}
	files, err := engine.Render(chart, values)
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			fmt.Println("---\n" + text)
		}
	}
}
