// Command deadcode tells which functions of this repository nobody can call.
//
// A function is alive when it can be reached from a main, a test or, in the filter, from a callback of the host, in any of the builds
// that there are: golang.org/x/tools/cmd/deadcode knows no //go:wasmexport, and one build only. What lies below plugin/internal must be
// reachable from more than tests: nobody else can import it. A function of that kind that tests need says so in its comment, with a
// line that begins with "For tests".
//
// It runs in the repository's top folder, and ends with status 1 where something is dead.
package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/rta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// build is one way to compile the repository.
type build struct {
	folder   string   // of the module
	patterns []string // of packages
	wasm     bool     // for the host, as a filter
	tags     string
}

var builds = []build{
	{folder: ".", patterns: []string{"./..."}},
	{folder: "e2e", patterns: []string{"./..."}},
	{folder: "image", patterns: []string{"./..."}},
	{folder: "mesh", patterns: []string{"./..."}},
	{folder: ".", patterns: []string{"./plugin"}, wasm: true},
	{folder: ".", patterns: []string{"./plugin"}, wasm: true, tags: "faults,smalltable,figures"},
	{folder: "plugin/sdk", patterns: []string{"."}, wasm: true},
}

// notYet are packages below plugin/internal that no command has yet: what they offer counts as alive. A package that is reached has no
// business here, which is told.
var notYet []string

// function is one that is declared, outside of tests.
type function struct {
	name     string
	internal bool // below plugin/internal
	forTests bool // says so
	alive    bool // reachable from mains and callbacks
	offered  bool // reachable from a package of notYet
	tested   bool // reachable from tests
}

func main() {
	top, err := os.Getwd()
	if err != nil {
		fail(err)
	}
	all := functions{}
	for _, b := range builds {
		if _, err := os.Stat(filepath.Join(top, b.folder, "go.mod")); err != nil {
			continue
		}
		if err := b.look(top, all); err != nil {
			fail(fmt.Errorf("%s %v: %w", b.folder, b.patterns, err))
		}
	}
	var dead []string
	for at, f := range all {
		switch {
		case f.alive && slices.ContainsFunc(notYet, func(p string) bool { return strings.HasPrefix(at, p) }):
			dead = append(dead, at+": "+f.name+" is reached: take its package out of notYet")
		case f.alive || f.offered || f.tested && (!f.internal || f.forTests):
		case f.tested:
			dead = append(dead, at+": only tests reach "+f.name)
		default:
			dead = append(dead, at+": nothing reaches "+f.name)
		}
	}
	slices.Sort(dead)
	for _, line := range dead {
		fmt.Println(line)
	}
	if len(dead) > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "deadcode:", err)
	os.Exit(2)
}

// look adds what one build declares, and marks what it reaches.
func (b build) look(top string, all functions) error {
	env := os.Environ()
	if b.wasm {
		env = append(env, "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	}
	positions := token.NewFileSet()
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax, Dir: filepath.Join(top, b.folder), Env: env, Fset: positions, Tests: !b.wasm, BuildFlags: []string{"-tags=" + b.tags},
	}, b.patterns...)
	if err != nil {
		return err
	}
	if packages.PrintErrors(loaded) > 0 {
		return fmt.Errorf("does not compile")
	}
	at := func(p token.Pos) string {
		where := positions.Position(p)
		file, err := filepath.Rel(top, where.Filename)
		if err != nil || strings.HasPrefix(file, "..") || strings.HasSuffix(file, "_test.go") {
			return "" // somebody else's, or a test
		}
		return fmt.Sprintf("%s:%d", filepath.ToSlash(file), where.Line)
	}

	program, built := ssautil.AllPackages(loaded, ssa.InstantiateGenerics)
	program.Build()
	var mains, tests, offered []*ssa.Function
	for _, p := range built {
		if p == nil || p.Pkg.Name() != "main" {
			continue
		}
		into := &mains
		if strings.HasSuffix(p.Pkg.Path(), ".test") {
			into = &tests
		}
		*into = append(*into, p.Func("init"), p.Func("main"))
	}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, file := range p.Syntax {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				where := at(f.Name.Pos())
				declare(all, where, f)
				o, ok := p.TypesInfo.Defs[f.Name].(*types.Func)
				switch {
				case !ok:
				case exported(f):
					mains = append(mains, program.FuncValue(o))
				case o.Exported() && slices.ContainsFunc(notYet, func(p string) bool { return strings.HasPrefix(where, p) }):
					offered = append(offered, program.FuncValue(o))
				}
			}
		}
	})
	for f := range all.reached(at, mains) {
		f.alive = true
	}
	for f := range all.reached(at, offered) {
		f.offered = true
	}
	for f := range all.reached(at, tests) {
		f.tested = true
	}
	return nil
}

// functions are those of the repository, by "file:line".
type functions map[string]*function

// reached gives those that can be called from some others.
func (all functions) reached(at func(token.Pos) string, roots []*ssa.Function) iter.Seq[*function] {
	return func(yield func(*function) bool) {
		roots = slices.DeleteFunc(roots, func(f *ssa.Function) bool { return f == nil })
		if len(roots) == 0 {
			return
		}
		for f := range rta.Analyze(roots, true).Reachable {
			if f.Origin() != nil {
				f = f.Origin()
			}
			if f.Object() == nil {
				continue
			}
			if known := all[at(f.Object().Pos())]; known != nil && !yield(known) {
				return
			}
		}
	}
}

// declare adds a function that is not known yet. An empty one marks a type, and is never called.
func declare(all functions, at string, f *ast.FuncDecl) {
	if at == "" || all[at] != nil || f.Body == nil || len(f.Body.List) == 0 || f.Name.Name == "init" || f.Name.Name == "_" {
		return
	}
	name := f.Name.Name
	if f.Recv != nil && len(f.Recv.List) == 1 {
		t := f.Recv.List[0].Type
		if p, ok := t.(*ast.StarExpr); ok {
			t = p.X
		}
		if id, ok := t.(*ast.Ident); ok {
			name = id.Name + "." + name
		}
	}
	all[at] = &function{
		name: name, internal: strings.HasPrefix(at, "plugin/internal/") && !strings.Contains(at, "/etcdsim/") && !strings.Contains(at, "/modeltest/"), // for tests alone
		forTests: f.Doc != nil && strings.Contains("\n"+f.Doc.Text(), "\nFor tests"),
	}
}

// exported says whether the host calls a function by itself.
func exported(f *ast.FuncDecl) bool {
	if f.Doc == nil {
		return false
	}
	return slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:wasmexport ") })
}
