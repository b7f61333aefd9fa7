// A program that does with our objects and configuration what Argo CD and Flux do: Lua scripts run in the engine of Argo CD,
// differences are ignored by its libraries, and statuses are computed by kstatus. README.md lists the requests.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// A request, of which `config` is the data of the ConfigMap argocd-cm.
type request struct {
	Op     string                     `json:"op"`
	Config map[string]string          `json:"config"`
	Object *unstructured.Unstructured `json:"object"`
	Action string                     `json:"action"`
	Params map[string]string          `json:"params"`
}

func (r request) answer() (any, error) {
	if r.Object == nil {
		return nil, fmt.Errorf("the request has no object")
	}
	switch r.Op {
	case "health":
		return health(r)
	case "actions":
		return availableActions(r)
	case "act":
		return act(r)
	case "normalize":
		return normalize(r)
	case "kstatus":
		result, err := status.Compute(r.Object)
		if err != nil {
			return nil, err
		}
		return map[string]string{"status": result.Status.String(), "message": result.Message}, nil
	}
	return nil, fmt.Errorf("there is no op %q", r.Op)
}

func main() {
	input := json.NewDecoder(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for input.More() {
		var r request
		if err := input.Decode(&r); err != nil {
			fmt.Fprintln(os.Stderr, "gitops:", err)
			os.Exit(1)
		}
		answer, err := r.answer()
		line := map[string]any{"ok": answer}
		if err != nil {
			line = map[string]any{"error": err.Error()}
		}
		if err := output.Encode(line); err != nil {
			fmt.Fprintln(os.Stderr, "gitops:", err)
			os.Exit(1)
		}
	}
}
