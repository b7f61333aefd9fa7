package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strings"

	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartv2util "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

func init() {
	ops["template"] = chartTemplate
	ops["coalesce"] = coalesce
}

// helmVersion is the version of the module that this is built with.
func helmVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "helm.sh/helm/v4" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "?"
}

// A chartRequest describes a chart in memory and what it is rendered with.
type chartRequest struct {
	common
	// One template, templates/t.yaml; its output alone is the answer.
	T   *string `json:"t"`
	T64 []byte  `json:"t64"`
	// Files of templates/ by their names in it. Without t, the answer is the output of each.
	Ts map[string]string `json:"ts"`
	// Any files of the chart by their paths.
	Files   map[string]string `json:"files"`
	Files64 map[string][]byte `json:"files64"`
	// The user's values, read as a file of -f; or its text.
	V  json.RawMessage `json:"v"`
	VY string          `json:"vy"`
	// The chart's values.yaml, as JSON.
	Defaults json.RawMessage `json:"defaults"`
	// Whole numbers of v are int64, as operator-sdk hands a CR's spec to Helm.
	Ints    bool `json:"ints"`
	Release *struct {
		Name, Namespace string
		Revision        int
		Upgrade         bool
	} `json:"release"`
	KubeVersion string   `json:"kubeVersion"`
	APIVersions []string `json:"apiVersions"`
	// The objects that lookup finds.
	Lookup []map[string]any `json:"lookup"`
	// Templates that ask for a missing key fail (helm lint --strict), `required` and `fail` don't (lint mode).
	Strict bool `json:"strict"`
	Lint   bool `json:"lint"`
	// Also answer what Helm logged and printed, as "logged".
	Log bool `json:"log"`
	// The op coalesce: as Helm does before conditions and imports (nulls stay).
	Merge bool `json:"merge"`
}

func (r *chartRequest) chart() (*chart.Chart, error) {
	files := map[string][]byte{"Chart.yaml": []byte("apiVersion: v2\nname: c\nversion: 0.1.0\n")}
	if r.Defaults != nil {
		files["values.yaml"] = r.Defaults
	}
	for name, text := range r.Ts {
		files["templates/"+name] = []byte(text)
	}
	for name, text := range r.Files {
		files[name] = []byte(text)
	}
	for name, bytes := range r.Files64 {
		files[name] = bytes
	}
	if r.T64 != nil {
		files["templates/t.yaml"] = r.T64
	} else if r.T != nil {
		files["templates/t.yaml"] = []byte(*r.T)
	}
	buffered := make([]*archive.BufferedFile, 0, len(files))
	for name, bytes := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: bytes})
	}
	sort.Slice(buffered, func(i, j int) bool { return buffered[i].Name < buffered[j].Name })
	return loader.LoadFiles(buffered)
}

func (r *chartRequest) values() (map[string]any, error) {
	text := r.VY
	if r.V != nil {
		text = string(r.V)
	}
	if r.Ints && r.V != nil {
		value, err := plain(r.V)
		if err != nil {
			return nil, wrongRequest{err}
		}
		values, ok := value.(map[string]any)
		if !ok {
			return nil, wrongRequest{fmt.Errorf("v must be an object, not %T", value)}
		}
		return values, nil
	}
	return loader.LoadValues(strings.NewReader(text))
}

func (r *chartRequest) capabilities() (*chartcommon.Capabilities, error) {
	capabilities := chartcommon.DefaultCapabilities.Copy()
	if r.KubeVersion != "" {
		version, err := chartcommon.ParseKubeVersion(r.KubeVersion)
		if err != nil {
			return nil, err
		}
		capabilities.KubeVersion = *version
	}
	capabilities.APIVersions = append(capabilities.APIVersions, r.APIVersions...)
	return capabilities, nil
}

// renderValues prepares what templates see, in the order of the install command.
func (r *chartRequest) renderValues() (*chart.Chart, chartcommon.Values, error) {
	c, err := r.chart()
	if err != nil {
		return nil, nil, err
	}
	values, err := r.values()
	if err != nil {
		return nil, nil, err
	}
	if err := chartv2util.ProcessDependencies(c, values); err != nil {
		return nil, nil, fmt.Errorf("chart dependencies processing failed: %w", err)
	}
	release := chartcommon.ReleaseOptions{Name: "release-name", Namespace: "default", Revision: 1, IsInstall: true}
	if r.Release != nil {
		release.Name, release.Namespace = r.Release.Name, r.Release.Namespace
		release.IsInstall, release.IsUpgrade = !r.Release.Upgrade, r.Release.Upgrade
		if r.Release.Revision != 0 {
			release.Revision = r.Release.Revision
		}
	}
	capabilities, err := r.capabilities()
	if err != nil {
		return nil, nil, err
	}
	top, err := chartutil.ToRenderValues(c, values, release, capabilities)
	return c, top, err
}

// chartTemplate renders with Helm's engine: no splitting, no sorting, no check of the output.
func chartTemplate(line []byte) (answer, error) {
	var request chartRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	result := answer{}
	outputs, err := request.render()
	if request.Log {
		result.text("logged", captured(os.Stdout)+captured(os.Stderr))
	}
	if err != nil {
		return result, err
	}
	if request.T != nil || request.T64 != nil {
		for name, text := range outputs {
			if strings.HasSuffix(name, "/templates/t.yaml") && strings.Count(name, "/") == 2 {
				result.text("out", text)
				return result, nil
			}
		}
		return result, wrongRequest{fmt.Errorf("the engine left templates/t.yaml out")}
	}
	return result.texts("out", outputs), nil
}

func (r *chartRequest) render() (map[string]string, error) {
	c, top, err := r.renderValues()
	if err != nil {
		return nil, err
	}
	if r.Lookup != nil {
		return engine.RenderWithClientProvider(c, top, objects(r.Lookup))
	}
	return engine.Engine{Strict: r.Strict, LintMode: r.Lint}.Render(c, top)
}

// texts adds a map of texts to an answer; those that aren't UTF-8 are in base64 in a second map.
func (a answer) texts(name string, texts map[string]string) answer {
	plain, encoded := answer{}, answer{}
	for key, text := range texts {
		one := answer{}
		one.text("", text)
		if text, ok := one[""]; ok {
			plain[key] = text
		} else {
			encoded[key] = one["64"]
		}
	}
	a[name] = plain
	if len(encoded) > 0 {
		a[name+"64"] = encoded
	}
	return a
}

// coalesce answers a chart's values with the user's on top, and the warnings about them.
func coalesce(line []byte) (answer, error) {
	var request chartRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	c, err := request.chart()
	if err != nil {
		return nil, err
	}
	values, err := request.values()
	if err != nil {
		return nil, err
	}
	if err := chartv2util.ProcessDependencies(c, values); err != nil {
		return nil, err
	}
	if request.Merge {
		values, err = chartutil.MergeValues(c, values)
	} else {
		values, err = chartutil.CoalesceValues(c, values)
	}
	if err != nil {
		return nil, err
	}
	result := answer{"out": values}
	if log := captured(os.Stderr); log != "" {
		result.text("logged", log)
	}
	return result, nil
}
