package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/towline/terraform-provider-towline/internal/manifest"
)

const root = "../.."

func TestTheReferenceIsUpToDate(t *testing.T) {
	kinds, err := manifest.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := Pages(kinds, filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		if got, err := os.ReadFile(filepath.Join(root, "docs", name)); err != nil || string(got) != want {
			t.Errorf("docs/%s is out of date: run make terraform-docs", name)
		}
	}
	known := 0
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			known++
		}
		return err
	})
	if err != nil || known != len(pages) {
		t.Errorf("docs has %d pages instead of %d: run make terraform-docs (%v)", known, len(pages), err)
	}
}

func TestLinksLeadToTheNestedObjectsOfAPage(t *testing.T) {
	kinds, err := manifest.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := Pages(kinds, filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		for _, part := range strings.Split(page, "](#")[1:] {
			target, _, _ := strings.Cut(part, ")")
			if strings.Count(page, `<a id="`+target+`"></a>`) != 1 {
				t.Errorf("%s: the link to %s leads nowhere", name, target)
			}
		}
	}
}
