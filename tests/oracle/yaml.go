package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"
)

func init() {
	ops["yaml.read"] = yamlRead
	ops["yaml.write"] = yamlWrite(func(value any) ([]byte, error) { return sigs.Marshal(value) })
	ops["yaml.pretty"] = yamlWrite(yamlPretty)
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
