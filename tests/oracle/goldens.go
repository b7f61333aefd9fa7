package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A fixture's results are computed that often; where they differ the case has no expected result.
const repeats = 3

// The run of the command goldens.
type goldens struct {
	pool  *pool
	check bool
	// How many cases there were, and how many files differ from what was found.
	cases, different int
	problems         []string
}

// goldensCommand writes the outputs of the fixtures below the paths anew: files .jsonl whose first line names an op, and
// folders with a file args.
func goldensCommand(args []string) error {
	flags, workers, timeout := poolFlags("goldens")
	*workers = runtime.NumCPU()
	check := flags.Bool("check", false, "write nothing, fail where a file would change")
	version := flags.String("version", "", "a file to write Helm's version to")
	flags.Parse(args)
	if flags.NArg() == 0 {
		return fmt.Errorf("goldens needs files or folders\n%s", usage)
	}
	var files, folders []string
	for _, path := range flags.Args() {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		err = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
			case strings.HasSuffix(path, ".jsonl"):
				files = append(files, path)
			case entry.Name() == "args":
				folders = append(folders, filepath.Dir(path))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	pool, err := newPool(*workers, *timeout)
	if err != nil {
		return err
	}
	defer pool.close()
	run := goldens{pool: pool, check: *check}
	for _, file := range files {
		if err := run.file(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := run.folders(folders); err != nil {
		return err
	}
	helm, golang := versions()
	if *version != "" {
		if err := run.settle(*version, []byte(helm+"\n")); err != nil {
			return err
		}
	}
	for _, problem := range run.problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(run.problems) > 0 {
		return fmt.Errorf("%d cases have no result to expect; their files are as they were", len(run.problems))
	}
	if run.different > 0 && run.check {
		return fmt.Errorf("%d files differ from what Helm makes; `make goldens` writes them", run.different)
	}
	fmt.Fprintf(os.Stderr, "goldens: %d cases, %d files changed, Helm %s, Go %s\n", run.cases, run.different, helm, golang)
	return nil
}

// settle puts fresh contents in place of a file's; nil means no file.
func (g *goldens) settle(path string, fresh []byte) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if (err == nil) == (fresh != nil) && bytes.Equal(old, fresh) {
		return nil
	}
	g.different++
	fmt.Fprintln(os.Stderr, "changed:", path)
	switch {
	case g.check:
		return nil
	case fresh == nil:
		return os.Remove(path)
	default:
		return os.WriteFile(path, fresh, 0o644)
	}
}

// file treats one .jsonl: a header with the op and the fields that cases have if they don't say otherwise, then the cases.
func (g *goldens) file(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	header, err := parseObject(lines[0])
	if err != nil || header.get("op") == nil {
		return errors.New(`the first line must be a header with an op, such as {"op":"template"}`)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n", header.encode())
	seen := map[string]bool{}
	problems := len(g.problems)
	var cases []object
	var requests [][]byte
	for number, line := range lines[1:] {
		one, err := parseObject(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", number+2, err)
		}
		one = one.without(outcomeFields)
		if key := string(one.encode()); seen[key] {
			fmt.Fprintf(os.Stderr, "%s:%d: left out, it was there before: %s\n", path, number+2, key)
			continue
		} else {
			seen[key] = true
		}
		cases = append(cases, one)
		requests = append(requests, one.or(header).encode())
	}
	results := g.askAll(requests)
	for at, one := range cases {
		result, problem := outcome(one.or(header), results[at])
		if problem != "" {
			g.problems = append(g.problems, fmt.Sprintf("%s: %s: %s", path, problem, one.encode()))
			continue
		}
		fmt.Fprintf(&out, "%s\n", append(one, result...).encode())
	}
	g.cases += len(cases)
	if len(g.problems) > problems {
		return nil
	}
	return g.settle(path, out.Bytes())
}

// askAll returns the answers to each request, all that were given.
func (g *goldens) askAll(requests [][]byte) [][][]byte {
	answers := make([][][]byte, len(requests))
	next := make(chan int)
	done := make(chan bool)
	for range g.pool.size {
		go func() {
			for at := range next {
				for range repeats {
					answers[at] = append(answers[at], g.pool.ask(requests[at]))
				}
			}
			done <- true
		}()
	}
	for at := range requests {
		next <- at
	}
	close(next)
	for range g.pool.size {
		<-done
	}
	return answers
}

// folders treats cases that are folders with a file args: the arguments after `helm template`, separated by blanks, relative to the
// folder.
func (g *goldens) folders(folders []string) error {
	requests := make([][]byte, len(folders))
	parents := map[string]bool{}
	for at, folder := range folders {
		parents[filepath.Dir(folder)] = true
		args, err := os.ReadFile(filepath.Join(folder, "args"))
		if err != nil {
			return err
		}
		requests[at] = encode(map[string]any{
			"op": "helm", "dir": folder, "args": append([]string{"template"}, strings.Fields(string(args))...),
		})
	}
	for at, answers := range g.askAll(requests) {
		var results [][3]string
		for _, answer := range answers {
			var result struct {
				Stdout, Stderr string
				Code           *int
			}
			if err := json.Unmarshal(answer, &result); err != nil || result.Code == nil {
				g.problems = append(g.problems, fmt.Sprintf("%s: %s", folders[at], answer))
				break
			}
			_, message, found := strings.Cut("\n"+result.Stderr, "\nError:")
			if found {
				message = sortFindings("Error:" + message)
			}
			results = append(results, [3]string{result.Stdout, message, fmt.Sprintln(*result.Code)})
		}
		if len(results) < len(answers) {
			continue
		}
		for _, result := range results {
			if result != results[0] {
				g.problems = append(g.problems, fmt.Sprintf("%s: the result varies", folders[at]))
				break
			}
		}
		for which, name := range []string{"expected.yaml", "expected.err", "expected.code"} {
			text := []byte(results[0][which])
			if len(text) == 0 && name == "expected.err" {
				text = nil
			}
			if err := g.settle(filepath.Join(folders[at], name), text); err != nil {
				return err
			}
		}
	}
	g.cases += len(folders)
	return nil
}

// sortFindings sorts each run of lines that begin with "- at ": Helm has the findings of a schema in a random order.
func sortFindings(text string) string {
	lines := strings.Split(text, "\n")
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && strings.HasPrefix(lines[to], "- at ") {
			to++
		}
		slices.Sort(lines[from:to])
		from = max(from, to)
	}
	return strings.Join(lines, "\n")
}
