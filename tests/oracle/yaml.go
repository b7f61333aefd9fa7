package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	sigs "sigs.k8s.io/yaml"
)

func init() {
	ops["yaml.read"] = yamlRead
	ops["yaml.write"] = yamlWrite(func(value any) ([]byte, error) { return sigs.Marshal(value) })
	ops["yaml.pretty"] = yamlWrite(yamlPretty)
	ops["manifests"] = manifests
}

type yamlRequest struct {
	common
	// The text to read, or the value to write.
	In   json.RawMessage `json:"in"`
	In64 []byte          `json:"in64"`
	// Duplicate keys are errors, as in Helm's reading of index files and of lint's Chart.yaml.
	Strict bool `json:"strict"`
}

// yamlRead is the way of fromYaml, values files and manifests: YAML to JSON.
func yamlRead(line []byte) (answer, error) {
	var request yamlRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	text := request.In64
	if text == nil {
		var in string
		if err := json.Unmarshal(request.In, &in); err != nil {
			return nil, wrongRequest{fmt.Errorf("in must be a text: %w", err)}
		}
		text = []byte(in)
	}
	convert := sigs.YAMLToJSON
	if request.Strict {
		convert = sigs.YAMLToJSONStrict
	}
	out, err := convert(text)
	if err != nil {
		return nil, fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	return answer{"out": json.RawMessage(out)}, nil
}

func yamlWrite(write func(any) ([]byte, error)) op {
	return func(line []byte) (answer, error) {
		var request yamlRequest
		if err := read(line, &request); err != nil {
			return nil, err
		}
		value, err := plain(request.In)
		if err != nil {
			return nil, wrongRequest{err}
		}
		out, err := write(value)
		if err != nil {
			return nil, err
		}
		result := answer{}
		result.text("out", string(out))
		return result, nil
	}
}

// yamlPretty is how toYamlPretty writes, before it takes the last line feed off.
func yamlPretty(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(value)
	return out.Bytes(), err
}

// plain reads JSON with whole numbers as int64 (uint64 where they need it) and all others as float64.
func plain(text []byte) (any, error) {
	if text == nil {
		return nil, errors.New("a value is missing")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return withoutNumbers(value), nil
}

func withoutNumbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if !bytes.ContainsAny([]byte(value), ".eE") {
			if n, err := value.Int64(); err == nil {
				return n
			}
			var n uint64
			if _, err := fmt.Sscan(string(value), &n); err == nil {
				return n
			}
		}
		n, _ := value.Float64()
		return n
	case []any:
		for at := range value {
			value[at] = withoutNumbers(value[at])
		}
	case map[string]any:
		for key := range value {
			value[key] = withoutNumbers(value[key])
		}
	}
	return value
}

type manifestsRequest struct {
	common
	// Rendered templates by their paths.
	Files map[string]string `json:"files"`
	// Only split one text into its documents, in order.
	Split *string `json:"split"`
}

// manifests sorts rendered templates into hooks and manifests in install order.
func manifests(line []byte) (answer, error) {
	var request manifestsRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	if request.Split != nil {
		parts := releaseutil.SplitManifests(*request.Split)
		out := make([]string, len(parts))
		for at := range out {
			out[at] = parts[fmt.Sprintf("manifest-%d", at)]
		}
		return answer{"out": out}, nil
	}
	hooks, sorted, err := releaseutil.SortManifests(request.Files, chartcommon.VersionSet{}, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	type hook struct {
		Name, Kind, Path, Manifest   string
		Events, DeletePolicies, Logs []string
		Weight                       int
	}
	out := map[string][]any{"hooks": {}, "manifests": {}}
	for _, h := range hooks {
		one := hook{Name: h.Name, Kind: h.Kind, Path: h.Path, Manifest: h.Manifest, Weight: h.Weight}
		for _, event := range h.Events {
			one.Events = append(one.Events, string(event))
		}
		for _, policy := range h.DeletePolicies {
			one.DeletePolicies = append(one.DeletePolicies, string(policy))
		}
		for _, policy := range h.OutputLogPolicies {
			one.Logs = append(one.Logs, string(policy))
		}
		out["hooks"] = append(out["hooks"], one)
	}
	for _, m := range sorted {
		out["manifests"] = append(out["manifests"], map[string]any{"name": m.Name, "content": m.Content})
	}
	return answer{"out": out}, nil
}
