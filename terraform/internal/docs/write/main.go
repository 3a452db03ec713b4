// Command write writes the reference of the provider into the folder docs of the current one.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/towline/terraform-provider-towline/internal/docs"
	"github.com/towline/terraform-provider-towline/internal/manifest"
)

func main() {
	if err := write("docs"); err != nil {
		log.Fatal(err)
	}
}

// write replaces the folder, so that pages of former kinds disappear.
func write(folder string) error {
	kinds, err := manifest.Kinds()
	if err != nil {
		return err
	}
	pages, err := docs.Pages(kinds, "examples")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, text := range pages {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
