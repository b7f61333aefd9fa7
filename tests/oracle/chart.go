package main

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	T *string `json:"t"`
	// Files of templates/ by their names in it. Without t, the answer is the output of each.
	Ts map[string]string `json:"ts"`
	// Any files of the chart by their paths.
	Files   map[string]string `json:"files"`
	Files64 map[string][]byte `json:"files64"`
	// The user's values, read as a file of -f.
	V           json.RawMessage `json:"v"`
	KubeVersion string          `json:"kubeVersion"`
}

func (r *chartRequest) chart() (*chart.Chart, error) {
	files := map[string][]byte{"Chart.yaml": []byte("apiVersion: v2\nname: c\nversion: 0.1.0\n")}
	for name, text := range r.Ts {
		files["templates/"+name] = []byte(text)
	}
	for name, text := range r.Files {
		files[name] = []byte(text)
	}
	for name, data := range r.Files64 {
		files[name] = data
	}
	if r.T != nil {
		files["templates/t.yaml"] = []byte(*r.T)
	}
	buffered := make([]*archive.BufferedFile, 0, len(files))
	for name, data := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: data})
	}
	sort.Slice(buffered, func(i, j int) bool { return buffered[i].Name < buffered[j].Name })
	return loader.LoadFiles(buffered)
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
	return capabilities, nil
}

// renderValues prepares what templates see, in the order of the install command.
func (r *chartRequest) renderValues() (*chart.Chart, chartcommon.Values, error) {
	c, err := r.chart()
	if err != nil {
		return nil, nil, err
	}
	values, err := loader.LoadValues(bytes.NewReader(r.V))
	if err != nil {
		return nil, nil, err
	}
	if err := chartv2util.ProcessDependencies(c, values); err != nil {
		return nil, nil, fmt.Errorf("chart dependencies processing failed: %w", err)
	}
	release := chartcommon.ReleaseOptions{Name: "release-name", Namespace: "default", Revision: 1, IsInstall: true}
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
	c, top, err := request.renderValues()
	if err != nil {
		return nil, err
	}
	outputs, err := engine.Engine{}.Render(c, top)
	if err != nil {
		return nil, err
	}
	result := answer{}
	if request.T == nil {
		return result.texts("out", outputs), nil
	}
	for name, text := range outputs {
		if strings.HasSuffix(name, "/templates/t.yaml") && strings.Count(name, "/") == 2 {
			result.text("out", text)
			return result, nil
		}
	}
	return nil, wrongRequest{fmt.Errorf("the engine left templates/t.yaml out")}
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
