// Command mutants plants the faults that the packages' lists name (testdata/mutants.txt), one after the other, and sees each found by
// the tests that the list says must find it. The tree is not touched: the compiler is given another file in place of the one on disk.
//
//	mutants [-of folder] [-check] [-j n] [-timeout d]
//
// It runs in the repository's top folder, and ends with status 1 when a fault is not found, does not apply, or does not compile. See
// list.go for the format of a list.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	of := flag.String("of", "", "only the lists at or below this `folder`")
	check := flag.Bool("check", false, "only see that each fault applies, and that the tests which must find it exist")
	jobs := flag.Int("j", 1, "how many to try at a time")
	timeout := flag.Duration("timeout", 10*time.Minute, "how long the tests may take that must find one fault; one that hangs them is found")
	only := flag.String("only", "", "only faults whose name holds this `text`")
	flag.Parse()

	lists, err := find(".", *of)
	if err == nil && len(lists) == 0 {
		err = fmt.Errorf("no testdata/mutants.txt at or below %q", *of)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	var all []mutant
	wrong := 0
	for _, file := range lists {
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(2)
		}
		found, errs := read(file, string(text))
		errs = append(errs, duplicates(found)...)
		for _, m := range found {
			if err := m.applies(); err != nil {
				errs = append(errs, err)
			}
		}
		for _, err := range errs {
			wrong++
			fmt.Println(err)
		}
		all = append(all, found...)
	}
	if *check || wrong > 0 {
		fmt.Printf("%d faults in %d lists, %d mistakes in them\n", len(all), len(lists), wrong)
		if wrong > 0 {
			os.Exit(1)
		}
		return
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.name, *only) })
	if !try(all, *jobs, *timeout) {
		os.Exit(1)
	}
}

// try plants them all, says what became of each, and whether every one was found.
func try(all []mutant, jobs int, timeout time.Duration) bool {
	var mu sync.Mutex
	count := map[verdict]int{}
	turns := make(chan mutant)
	var workers sync.WaitGroup
	for range max(jobs, 1) {
		workers.Go(func() {
			for m := range turns {
				began := time.Now()
				v, by := m.try(timeout)
				mu.Lock()
				count[v]++
				fmt.Printf("%-15s %s: %s (%.0f s)\n", v, filepath.ToSlash(m.folder), m.name, time.Since(began).Seconds())
				if by != "" {
					fmt.Println("                " + strings.ReplaceAll(by, "\n", "\n                "))
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		turns <- m
	}
	close(turns)
	workers.Wait()
	fmt.Printf("%d faults: %d found, %d not found, %d do not compile, %d not tried\n", len(all), count[killed], count[lived], count[broken], count[untried])
	return count[killed] == len(all)
}

// find gives the lists at or below a folder.
func find(top, of string) (lists []string, err error) {
	err = filepath.WalkDir(filepath.Join(top, filepath.FromSlash(of)), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.Name() == "mutants.txt" && filepath.Base(filepath.Dir(path)) == "testdata":
			lists = append(lists, path)
		}
		return nil
	})
	return lists, err
}
