// Package sitter stands in for the parser of program sources, which needs a C compiler.
package sitter

import (
	"context"
	"errors"
)

var errNoGrammar = errors.New("vale was built without grammars: give it Markdown")

type (
	Language    struct{}
	Parser      struct{}
	Tree        struct{}
	Node        struct{}
	Query       struct{}
	QueryCursor struct{}
	Point       struct{ Row, Column uint32 }
	Capture     struct {
		Index uint32
		Node  *Node
	}
	QueryMatch struct{ Captures []Capture }
)

func NewParser() *Parser              { return &Parser{} }
func (*Parser) SetLanguage(*Language) {}
func (*Parser) ParseCtx(context.Context, *Tree, []byte) (*Tree, error) {
	return nil, errNoGrammar
}
func (*Tree) RootNode() *Node { return nil }

func NewQuery([]byte, *Language) (*Query, error)    { return nil, errNoGrammar }
func (*Query) CaptureNameForId(uint32) string       { return "" }
func NewQueryCursor() *QueryCursor                  { return &QueryCursor{} }
func (*QueryCursor) Exec(*Query, *Node)             {}
func (*QueryCursor) NextMatch() (*QueryMatch, bool) { return nil, false }
func (*QueryCursor) FilterPredicates(m *QueryMatch, _ []byte) *QueryMatch {
	return m
}

func (*Node) Content([]byte) string         { return "" }
func (*Node) StartPoint() Point             { return Point{} }
func (*Node) NextNamedSibling() *Node       { return nil }
func (*Node) Type() string                  { return "" }
func (*Node) NamedChild(int) *Node          { return nil }
func (*Node) NamedChildCount() uint32       { return 0 }
func (*Node) ChildByFieldName(string) *Node { return nil }
