// terraform-provider-towline declares resources of a Towline control plane in Terraform.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/towline/terraform-provider-towline/internal/manifest"
	"github.com/towline/terraform-provider-towline/internal/provider"
)

// version is set by the linker.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run under a debugger, and print the variable that Terraform needs")
	flag.Parse()
	kinds, err := manifest.Kinds()
	if err != nil {
		log.Fatal(err)
	}
	options := providerserver.ServeOpts{Address: "towline.io/towline/towline", Debug: *debug}
	if err := providerserver.Serve(context.Background(), provider.New(version, kinds), options); err != nil {
		log.Fatal(err)
	}
}
