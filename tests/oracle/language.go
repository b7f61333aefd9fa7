package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

func init() {
	ops["go"] = func(line []byte) (answer, error) { return execute(line, "dir/t.yaml", "zero", typedFuncs) }
	ops["sprig"] = func(line []byte) (answer, error) { return execute(line, "t", "default", sprig.TxtFuncMap()) }
}

// A languageRequest is one template without a chart.
type languageRequest struct {
	common
	T   string `json:"t"`
	T64 []byte `json:"t64"`
	// The data; each number is a float64.
	V json.RawMessage `json:"v"`
	// The option of that name.
	MissingKey string `json:"missingkey"`
}

// execute runs text/template alone. Where execution fails, what was printed before is in the answer too.
func execute(line []byte, name, missing string, funcs template.FuncMap) (answer, error) {
	var request languageRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	text := request.T
	if request.T64 != nil {
		text = string(request.T64)
	}
	if request.MissingKey != "" {
		missing = request.MissingKey
	}
	var data any
	if request.V != nil {
		if err := json.Unmarshal(request.V, &data); err != nil {
			return nil, wrongRequest{err}
		}
	}
	parsed, err := template.New("root").Option("missingkey=" + missing).Funcs(funcs).New(name).Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, data)
	result := answer{}
	if err == nil || out.Len() > 0 {
		result.text("out", out.String())
	}
	return result, err
}

// typedFuncs are functions whose parameters and results have each of the types that the language treats in its own way.
var typedFuncs = template.FuncMap{
	"upper":   strings.ToUpper,
	"addi":    func(a, b int) int { return a + b },
	"addf":    func(a, b float64) float64 { return a + b },
	"i64":     func(a int64) int64 { return a },
	"u64":     func(a int64) uint64 { return uint64(a) },
	"not2":    func(a bool) bool { return !a },
	"listf":   func(l []any) int { return len(l) },
	"strsf":   func(l []string) int { return len(l) },
	"mapf":    func(m map[string]any) int { return len(m) },
	"fail":    func(s string) (string, error) { return "", errors.New(s) },
	"panics":  func(s string) string { panic(s) },
	"nilf":    func() any { return nil },
	"ident":   func(a any) any { return a },
	"cat":     func(a ...any) string { return fmt.Sprint(a...) },
	"pre":     func(p string, rest ...string) string { return p + strings.Join(rest, ",") },
	"strs":    func() []string { return []string{"a", "b", "c"} },
	"ints":    func() []int { return []int{3, 1, 2} },
	"bytes":   func(s string) []byte { return []byte(s) },
	"strmap":  func() map[string]string { return map[string]string{"k": "v", "a": "b"} },
	"nilmap":  func() map[string]any { return nil },
	"nillist": func() []any { return nil },
	"list":    func(a ...any) []any { return a },
	"maps":    func() []map[string]any { return []map[string]any{{"a": 1}, {"b": "x"}, nil} },
}
