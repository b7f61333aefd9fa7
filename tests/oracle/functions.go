package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/gobwas/glob"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/ignore"
)

func init() {
	ops["strvals"] = strvals
	ops["schema"] = schemaCheck
	ops["semver"] = semverCompare
	ops["glob"] = globMatch
	ops["ignore"] = ignored
}

type strvalsRequest struct {
	common
	// Arguments of --set, --set-string, --set-json and --set-literal.
	Set        []string `json:"set"`
	SetString  []string `json:"setString"`
	SetJSON    []string `json:"setJSON"`
	SetLiteral []string `json:"setLiteral"`
}

// strvals merges values in the order in which every command does.
func strvals(line []byte) (answer, error) {
	var request strvalsRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	options := values.Options{
		Values: request.Set, StringValues: request.SetString, JSONValues: request.SetJSON, LiteralValues: request.SetLiteral,
	}
	merged, err := options.MergeValues(getter.All(cli.New()))
	if err != nil {
		return nil, err
	}
	return answer{"out": merged}, nil
}

type schemaRequest struct {
	common
	// The schema as JSON, or its text.
	Schema json.RawMessage `json:"schema"`
	Text   string          `json:"text"`
	V      map[string]any  `json:"v"`
}

// schemaCheck checks values; the findings of an error are sorted, because Helm has them in a random order.
func schemaCheck(line []byte) (answer, error) {
	var request schemaRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	text := []byte(request.Text)
	if request.Schema != nil {
		text = request.Schema
	}
	err := chartutil.ValidateAgainstSingleSchema(request.V, text)
	if err != nil {
		return answer{"err": sortFindings(err.Error())}, nil
	}
	return answer{"out": true}, nil
}

// sortFindings sorts each run of lines that begin with "- at ".
func sortFindings(text string) string {
	lines := strings.SplitAfter(text, "\n")
	isFinding := func(at int) bool { return strings.HasPrefix(lines[at], "- at ") }
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && isFinding(to) {
			to++
		}
		if to > from {
			bare := make([]string, 0, to-from)
			last := strings.HasSuffix(lines[to-1], "\n")
			for _, line := range lines[from:to] {
				bare = append(bare, strings.TrimSuffix(line, "\n"))
			}
			sort.Strings(bare)
			for at, line := range bare {
				if lines[from+at] = line + "\n"; from+at == to-1 && !last {
					lines[from+at] = line
				}
			}
			from = to
		}
	}
	return strings.Join(lines, "")
}

type semverRequest struct {
	common
	// Whether a version satisfies a constraint; without one, what the version is read as.
	Constraint *string `json:"constraint"`
	Version    string  `json:"version"`
	// As StrictNewVersion does.
	Strict bool `json:"strict"`
}

func semverCompare(line []byte) (answer, error) {
	var request semverRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	parse := semver.NewVersion
	if request.Strict {
		parse = semver.StrictNewVersion
	}
	if request.Constraint == nil {
		version, err := parse(request.Version)
		if err != nil {
			return nil, err
		}
		return answer{"out": version.String()}, nil
	}
	constraint, err := semver.NewConstraint(*request.Constraint)
	if err != nil {
		return nil, err
	}
	version, err := parse(request.Version)
	if err != nil {
		return nil, err
	}
	ok, reasons := constraint.Validate(version)
	result := answer{"out": ok}
	if len(reasons) > 0 {
		texts := make([]string, len(reasons))
		for at, reason := range reasons {
			texts[at] = reason.Error()
		}
		result["reasons"] = texts
	}
	return result, nil
}

type globRequest struct {
	common
	Pattern string   `json:"pattern"`
	Names   []string `json:"names"`
}

// globMatch answers which names match, as .Files.Glob decides.
func globMatch(line []byte) (answer, error) {
	var request globRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	matcher, err := glob.Compile(request.Pattern, '/')
	if err != nil {
		return nil, err
	}
	matched := []string{}
	for _, name := range request.Names {
		if matcher.Match(name) {
			matched = append(matched, name)
		}
	}
	return answer{"out": matched}, nil
}

type ignoreRequest struct {
	common
	// The text of a .helmignore.
	Rules string `json:"rules"`
	// A folder's path ends in a slash.
	Paths []string `json:"paths"`
}

// ignored answers which paths a .helmignore leaves out, each looked at alone.
func ignored(line []byte) (answer, error) {
	var request ignoreRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	rules, err := ignore.Parse(strings.NewReader(request.Rules))
	if err != nil {
		return nil, err
	}
	rules.AddDefaults()
	out := []string{}
	for _, path := range request.Paths {
		name := strings.TrimSuffix(path, "/")
		if rules.Ignore(name, fileInfo{name, strings.HasSuffix(path, "/")}) {
			out = append(out, path)
		}
	}
	return answer{"out": out}, nil
}

// fileInfo is all that the rules ask about a file.
type fileInfo struct {
	path  string
	isDir bool
}

func (f fileInfo) Name() string       { return f.path[strings.LastIndex(f.path, "/")+1:] }
func (f fileInfo) Size() int64        { return 0 }
func (f fileInfo) ModTime() time.Time { return time.Time{} }
func (f fileInfo) IsDir() bool        { return f.isDir }
func (f fileInfo) Sys() any           { return nil }
func (f fileInfo) Mode() fs.FileMode {
	if f.isDir {
		return os.ModeDir
	}
	return 0
}
