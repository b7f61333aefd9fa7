package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/yaml"
)

// Argo CD ends a script after this time.
const scriptTimeout = time.Second

// The key of a kind's entry in argocd-cm.
func (r request) entry(what string) (string, error) {
	kind := r.Object.GroupVersionKind()
	name := kind.Kind
	if kind.Group != "" {
		name = kind.Group + "_" + kind.Kind
	}
	key := "resource.customizations." + what + "." + name
	text, ok := r.Config[key]
	if !ok {
		return "", fmt.Errorf("argocd-cm has no %s", key)
	}
	return text, nil
}

// Runs a script as Argo CD does where useOpenLibs is not set: with the base, package and table libraries, and of the os library
// only time and date, which a script gets by require. Its globals are obj and actionParams.
func run(script string, object map[string]any, params map[string]string) (any, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	libraries := []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}}
	for _, library := range libraries {
		state.Push(state.NewFunction(library.open))
		state.Push(lua.LString(library.name))
		state.Call(1, 0)
	}
	state.PreloadModule(lua.OsLibName, func(state *lua.LState) int {
		lua.OpenOs(state)
		full := state.CheckTable(-1)
		safe := state.NewTable()
		for _, name := range []string{"time", "date"} {
			safe.RawSetString(name, full.RawGetString(name))
		}
		state.SetGlobal(lua.OsLibName, lua.LNil)
		state.Push(safe)
		return 1
	})
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	state.SetContext(ctx)
	table := state.NewTable()
	for name, value := range params {
		table.RawSetString(name, lua.LString(value))
	}
	state.SetGlobal("actionParams", table)
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	result := state.Get(-1)
	if result.Type() != lua.LTTable {
		return nil, fmt.Errorf("the script returns a %s, not a table", result.Type())
	}
	text, err := luajson.Encode(result)
	if err != nil {
		return nil, err
	}
	var value any
	err = json.Unmarshal(text, &value)
	return value, err
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	}
	return lua.LNil
}

func health(r request) (any, error) {
	script, err := r.entry("health")
	if err != nil {
		return nil, err
	}
	result, err := run(script, r.Object.Object, nil)
	if err != nil {
		return nil, err
	}
	health, _ := result.(map[string]any)
	code, _ := health["status"].(string)
	if !slices.Contains([]string{"Unknown", "Progressing", "Suspended", "Healthy", "Degraded", "Missing"}, code) {
		return nil, fmt.Errorf("%q is no health of Argo CD", code)
	}
	if message, ok := health["message"]; ok {
		if _, ok := message.(string); !ok {
			return nil, fmt.Errorf("the message is no text: %v", message)
		}
	}
	return health, nil
}

type actions struct {
	Discovery   string `json:"discovery.lua"`
	Definitions []struct {
		Name   string `json:"name"`
		Action string `json:"action.lua"`
	} `json:"definitions"`
}

func (r request) actions() (actions, error) {
	var found actions
	text, err := r.entry("actions")
	if err != nil {
		return found, err
	}
	err = yaml.UnmarshalStrict([]byte(text), &found)
	return found, err
}

// The action as discovered, or nil.
func discovered(r request, found actions) (map[string]any, error) {
	result, err := run(found.Discovery, r.Object.Object, nil)
	if err != nil {
		return nil, err
	}
	all, ok := result.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("discovery returns no actions by name: %v", result)
	}
	for name := range all {
		defined := false
		for _, definition := range found.Definitions {
			defined = defined || definition.Name == name
		}
		if !defined {
			return nil, fmt.Errorf("the discovered action %q has no definition", name)
		}
	}
	return all, nil
}

func availableActions(r request) (any, error) {
	found, err := r.actions()
	if err != nil {
		return nil, err
	}
	return discovered(r, found)
}

// The merge patch that Argo CD sends for an action.
func act(r request) (any, error) {
	found, err := r.actions()
	if err != nil {
		return nil, err
	}
	all, err := discovered(r, found)
	if err != nil {
		return nil, err
	}
	action, _ := all[r.Action].(map[string]any)
	if action == nil || action["disabled"] == true {
		return nil, fmt.Errorf("the action %q is not offered", r.Action)
	}
	for _, definition := range found.Definitions {
		if definition.Name != r.Action {
			continue
		}
		result, err := run(definition.Action, r.Object.Object, r.Params)
		if err != nil {
			return nil, fmt.Errorf("%s", strings.TrimSpace(strings.SplitN(err.Error(), "stack traceback", 2)[0]))
		}
		changed, ok := result.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the action returns no object: %v", result)
		}
		before, err := json.Marshal(r.Object.Object)
		if err != nil {
			return nil, err
		}
		after, err := json.Marshal(restoreMaps(changed, r.Object.Object))
		if err != nil {
			return nil, err
		}
		patch, err := jsonpatch.CreateMergePatch(before, after)
		return json.RawMessage(patch), err
	}
	return nil, fmt.Errorf("the action %q has no definition", r.Action)
}

// An empty table of Lua is encoded as a list. Where the object had a map, it stays a map.
func restoreMaps(value, before any) any {
	switch value := value.(type) {
	case map[string]any:
		before, _ := before.(map[string]any)
		for key := range value {
			value[key] = restoreMaps(value[key], before[key])
		}
	case []any:
		if _, ok := before.(map[string]any); ok && len(value) == 0 {
			return map[string]any{}
		}
		before, _ := before.([]any)
		for at := range min(len(value), len(before)) {
			value[at] = restoreMaps(value[at], before[at])
		}
	}
	return value
}
