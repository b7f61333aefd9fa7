package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The fields of an answer; a case has them after those that ask.
var outcomeFields = []string{
	"out", "out64", "err", "err64", "stdout", "stdout64", "stderr", "stderr64", "code",
}

// What a mask leaves of the text that it matches.
const masked = "{*}"

type field struct {
	name  string
	value json.RawMessage
}

// An object is a JSON object whose fields keep their order and their spelling.
type object []field

func parseObject(line string) (object, error) {
	decoder := json.NewDecoder(strings.NewReader(line))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("a line must be a JSON object")
	}
	var out object
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		out = append(out, field{name.(string), value})
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("a line must be one JSON object")
	}
	return out, nil
}

func (o object) get(name string) json.RawMessage {
	for _, field := range o {
		if field.name == name {
			return field.value
		}
	}
	return nil
}

func (o object) without(names []string) object {
	return slices.DeleteFunc(slices.Clone(o), func(f field) bool { return slices.Contains(names, f.name) })
}

// or adds the fields of another object that this one lacks.
func (o object) or(other object) object {
	out := slices.Clone(o)
	for _, field := range other {
		if o.get(field.name) == nil {
			out = append(out, field)
		}
	}
	return out
}

func (o object) encode() []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for at, field := range o {
		if at > 0 {
			out.WriteByte(',')
		}
		out.Write(encode(field.name))
		out.WriteByte(':')
		out.Write(field.value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// outcome is the result to expect of a case that was asked for more than once, or why there is none.
func outcome(request object, answers [][]byte) (result object, problem string) {
	var mask *regexp.Regexp
	if raw := request.get("mask"); raw != nil {
		var pattern string
		if err := json.Unmarshal(raw, &pattern); err != nil {
			return nil, "a mask is a regular expression"
		}
		var err error
		if mask, err = regexp.Compile(pattern); err != nil {
			return nil, err.Error()
		}
	}
	for at, answer := range answers {
		one, err := parseObject(string(answer))
		if err != nil {
			return nil, fmt.Sprintf("%v: %s", err, answer)
		}
		for _, field := range one {
			if !slices.Contains(outcomeFields, field.name) {
				return nil, string(answer)
			}
		}
		if mask != nil {
			for at := range one {
				if one[at].value, err = hide(mask, one[at].value); err != nil {
					return nil, err.Error()
				}
			}
		}
		slices.SortFunc(one, func(a, b field) int {
			return slices.Index(outcomeFields, a.name) - slices.Index(outcomeFields, b.name)
		})
		if at == 0 {
			result = one
		} else if !bytes.Equal(one.encode(), result.encode()) {
			return nil, fmt.Sprintf("the result varies (a mask would help): %s, %s", result.encode(), one.encode())
		}
	}
	return result, ""
}

// hide masks each string in a JSON value.
func hide(mask *regexp.Regexp, raw json.RawMessage) (json.RawMessage, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	var walk func(value any) any
	walk = func(value any) any {
		switch value := value.(type) {
		case string:
			return mask.ReplaceAllLiteralString(value, masked)
		case []any:
			for at := range value {
				value[at] = walk(value[at])
			}
		case map[string]any:
			for key := range value {
				value[key] = walk(value[key])
			}
		}
		return value
	}
	return encode(walk(value)), nil
}
