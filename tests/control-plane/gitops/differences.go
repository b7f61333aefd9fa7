package main

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/itchyny/gojq"
	"sigs.k8s.io/yaml"
)

type ignored struct {
	Pointers    []string `json:"jsonPointers"`
	Expressions []string `json:"jqPathExpressions"`
}

// Removes the ignored fields from an object, as Argo CD does with the live and the desired object before it compares them.
func normalize(r request) (any, error) {
	text, err := r.entry("ignoreDifferences")
	if err != nil {
		return nil, err
	}
	var fields ignored
	if err := yaml.UnmarshalStrict([]byte(text), &fields); err != nil {
		return nil, err
	}
	data, err := json.Marshal(r.Object.Object)
	if err != nil {
		return nil, err
	}
	for _, pointer := range fields.Pointers {
		operation, err := json.Marshal([]map[string]string{{"op": "remove", "path": pointer}})
		if err != nil {
			return nil, err
		}
		patch, err := jsonpatch.DecodePatch(operation)
		if err != nil {
			return nil, err
		}
		// A field that the object does not have is no error to Argo CD.
		if removed, err := patch.Apply(data); err == nil {
			data = removed
		}
	}
	for _, expression := range fields.Expressions {
		if data, err = deletePath(data, expression); err != nil {
			return nil, fmt.Errorf("%s: %w", expression, err)
		}
	}
	return json.RawMessage(data), nil
}

func deletePath(data []byte, expression string) ([]byte, error) {
	query, err := gojq.Parse("del(" + expression + ")")
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	result, ok := query.Run(value).Next()
	if !ok {
		return nil, fmt.Errorf("there is no result")
	}
	if err, ok := result.(error); ok {
		return nil, err
	}
	return json.Marshal(result)
}
