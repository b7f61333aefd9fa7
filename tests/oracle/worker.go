package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	// The command line of a worker.
	workerCommand = "-worker"
	// The environment variable with a folder of the worker's own.
	workerScratch = "ORACLE_SCRATCH"
)

// An op is what a request can ask for. It returns the fields of the answer.
type op func(request []byte) (answer, error)

type answer map[string]any

// Each file of this package that answers a family of requests adds its own.
var ops = map[string]op{}

// work answers requests from descriptor 3 on descriptor 4; standard input, output and error belong to the requests.
func work() error {
	requests, answers := os.NewFile(3, "requests"), os.NewFile(4, "answers")
	scanner := bufio.NewScanner(requests)
	scanner.Buffer(make([]byte, 1<<16), maxLine)
	for scanner.Scan() {
		os.Stdout.Truncate(0)
		os.Stderr.Truncate(0)
		if _, err := answers.Write(append(encode(answerTo(scanner.Bytes())), '\n')); err != nil {
			return err
		}
	}
	return scanner.Err()
}

// A wrongRequest is the asker's fault, and no outcome of the libraries.
type wrongRequest struct{ error }

func answerTo(line []byte) (result answer) {
	var head struct{ Op string }
	defer func() {
		if cause := recover(); cause != nil {
			result = answer{"panic": fmt.Sprint(cause)}
		}
	}()
	if err := json.Unmarshal(line, &head); err != nil {
		return answer{"bad": "not a JSON object: " + err.Error()}
	}
	op, ok := ops[head.Op]
	if !ok {
		return answer{"bad": fmt.Sprintf("there is no op %q", head.Op)}
	}
	result, err := op(line)
	if result == nil {
		result = answer{}
	}
	var wrong wrongRequest
	switch {
	case errors.As(err, &wrong):
		return answer{"bad": wrong.Error()}
	case err != nil:
		result.text("err", err.Error())
	}
	return result
}

// common are the fields that every request may have: the op, and those of a fixture's line that say nothing to one.
type common struct {
	Op    string          `json:"op"`
	Note  string          `json:"note"`
	Mask  string          `json:"mask"`
	Out   json.RawMessage `json:"out"`
	Out64 json.RawMessage `json:"out64"`
	Err   json.RawMessage `json:"err"`
	Err64 json.RawMessage `json:"err64"`
}

// read decodes a request into a struct. An unknown field is an error: a misspelt one would change the outcome.
func read(line []byte, request any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(request); err != nil {
		return wrongRequest{err}
	}
	return nil
}

// text adds bytes to an answer: as they are where they are UTF-8, else in base64 under a name with "64" at its end.
func (a answer) text(name, text string) {
	if utf8.ValidString(text) {
		a[name] = text
	} else {
		a[name+"64"] = base64.StdEncoding.EncodeToString([]byte(text))
	}
}

// captured is what was printed on a standard stream since the request began.
func captured(file *os.File) string {
	var text strings.Builder
	io.Copy(&text, io.NewSectionReader(file, 0, 1<<40))
	return text.String()
}
