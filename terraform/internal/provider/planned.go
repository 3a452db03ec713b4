package provider

import (
	"slices"
	"sync"

	"github.com/towline/terraform-provider-towline/internal/manifest"
)

// plannedDocuments remembers what one run of Terraform is going to create and to replace.
//
// The control plane plans a resource together with the new ones that it mentions: a service of a new
// cluster has no problem. Terraform plans a resource after those to which it refers.
type plannedDocuments struct {
	lock     sync.Mutex
	created  map[string][]*manifest.Document
	replaced map[string]bool
}

func newPlannedDocuments() *plannedDocuments {
	return &plannedDocuments{created: map[string][]*manifest.Document{}, replaced: map[string]bool{}}
}

// create remembers a new resource.
func (p *plannedDocuments) create(document *manifest.Document) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.remove(document)
	p.created[document.Key()] = append(p.created[document.Key()], document)
}

// forget removes a resource that exists now.
func (p *plannedDocuments) forget(document *manifest.Document) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.remove(document)
}

func (p *plannedDocuments) remove(document *manifest.Document) {
	key := document.Key()
	p.created[key] = slices.DeleteFunc(p.created[key], func(known *manifest.Document) bool {
		return known.Kind == document.Kind
	})
}

// replace remembers a resource that is deleted before it is created again.
func (p *plannedDocuments) replace(document *manifest.Document) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.replaced[document.Title()] = true
}

func (p *plannedDocuments) isReplaced(document *manifest.Document) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.replaced[document.Title()]
}

// with returns a document and the new ones that it mentions, also through others.
func (p *plannedDocuments) with(document *manifest.Document) []*manifest.Document {
	p.lock.Lock()
	defer p.lock.Unlock()
	found := []*manifest.Document{document}
	seen := map[string]bool{document.Title(): true}
	for n := 0; n < len(found); n++ {
		for _, text := range found[n].Mentions() {
			for _, other := range p.created[text] {
				if title := other.Title(); !seen[title] {
					seen[title] = true
					found = append(found, other)
				}
			}
		}
	}
	return found
}
