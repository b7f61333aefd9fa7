package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// objects are a cluster for the function lookup: it has these objects and no others. A kind is namespaced if one of its
// objects is.
type objects []map[string]any

// GetClientFor is Helm's way to a kind.
func (o objects) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	found := kindOf{kind: kind}
	namespaced := false
	for _, object := range o {
		item := unstructured.Unstructured{Object: object}
		if item.GetAPIVersion() == apiVersion && item.GetKind() == kind {
			found.items = append(found.items, item)
			namespaced = namespaced || item.GetNamespace() != ""
		}
	}
	return found, namespaced, nil
}

// kindOf are the objects of one kind; only what lookup calls is there.
type kindOf struct {
	dynamic.NamespaceableResourceInterface
	kind, namespace string
	items           []unstructured.Unstructured
}

func (k kindOf) Namespace(name string) dynamic.ResourceInterface {
	k.namespace = name
	return k
}

func (k kindOf) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	for _, item := range k.items {
		if item.GetName() == name && item.GetNamespace() == k.namespace {
			return &item, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.kind}, name)
}

func (k kindOf) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": k.kind + "List"}}
	for _, item := range k.items {
		if k.namespace == "" || item.GetNamespace() == k.namespace {
			list.Items = append(list.Items, item)
		}
	}
	return list, nil
}
