package main

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartv2util "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

func init() {
	ops["bench"] = bench
}

type benchRequest struct {
	common
	// A folder or an archive.
	Chart string `json:"chart"`
	// A file with values.
	Values string `json:"values"`
	// How often each step is done, and once before for nothing.
	Runs int `json:"runs"`
}

// bench measures Helm's steps in this process: medians in milliseconds.
//
// "render" is from the loaded chart and the user's values to the texts of all templates (dependencies, coalescing, schema, engine);
// "sort" from there to hooks and manifests. A chart is loaded anew for each, because dependencies change it.
func bench(line []byte) (answer, error) {
	var request benchRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	if request.Runs < 1 {
		return nil, wrongRequest{errors.New("runs must be at least 1")}
	}
	var values []byte
	if request.Values != "" {
		var err error
		if values, err = os.ReadFile(request.Values); err != nil {
			return nil, wrongRequest{err}
		}
	}
	// As many threads as Helm's binary has.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))

	var load, render, sort []float64
	var before, after runtime.MemStats
	var allocations, size uint64
	for run := range request.Runs + 1 {
		start := time.Now()
		c, err := loader.Load(request.Chart)
		if err != nil {
			return nil, err
		}
		loaded := time.Since(start)
		user, err := loader.LoadValues(bytes.NewReader(values))
		if err != nil {
			return nil, err
		}
		runtime.GC()
		runtime.ReadMemStats(&before)
		start = time.Now()
		if err := chartv2util.ProcessDependencies(c, user); err != nil {
			return nil, err
		}
		release := chartcommon.ReleaseOptions{Name: "bench", Namespace: "default", Revision: 1, IsInstall: true}
		top, err := chartutil.ToRenderValues(c, user, release, chartcommon.DefaultCapabilities.Copy())
		if err != nil {
			return nil, err
		}
		files, err := engine.Render(c, top)
		if err != nil {
			return nil, err
		}
		rendered := time.Since(start)
		runtime.ReadMemStats(&after)
		for name := range files {
			if len(name) > 9 && name[len(name)-9:] == "NOTES.txt" {
				delete(files, name)
			}
		}
		start = time.Now()
		if _, _, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder); err != nil {
			return nil, err
		}
		sorted := time.Since(start)
		if run == 0 {
			continue
		}
		load = append(load, milliseconds(loaded))
		render = append(render, milliseconds(rendered))
		sort = append(sort, milliseconds(sorted))
		allocations, size = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	}
	return answer{
		"load_ms": median(load), "render_ms": median(render), "sort_ms": median(sort),
		"render_min_ms": slices.Min(render), "render_allocations": allocations, "render_bytes": size,
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func median(samples []float64) float64 {
	slices.Sort(samples)
	middle := len(samples) / 2
	if len(samples)%2 == 1 {
		return samples[middle]
	}
	return (samples[middle-1] + samples[middle]) / 2
}
