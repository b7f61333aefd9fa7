package main

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/fatih/color"
	_ "github.com/spf13/cobra"
	_ "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/cli"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

// What a run of the command leaves behind for the next one: the values of the global flags are the defaults of the next
// command, every command adds one more function to those that cobra calls at the start, and a URN is warned of once.
//
//go:linkname helmSettings helm.sh/helm/v4/pkg/cmd.settings
var helmSettings *cli.EnvSettings

//go:linkname cobraInitializers github.com/spf13/cobra.initializers
var cobraInitializers []func()

//go:linkname warnedURNs helm.sh/helm/v4/pkg/chart/common/util.warnedURNs
var warnedURNs sync.Map

var colorIsOff = color.NoColor

func init() {
	ops["helm"] = helm
}

type helmRequest struct {
	common
	// The arguments after `helm`.
	Args []string `json:"args"`
	// What standard input has.
	Stdin string `json:"stdin"`
	// The folder to be in.
	Dir string `json:"dir"`
	// Files to write into a new folder, which is then the one to be in; "{DIR}" stands for it in the answer.
	Files   map[string]string `json:"files"`
	Files64 map[string][]byte `json:"files64"`
}

// helm runs the real command as its binary does, in this process.
func helm(line []byte) (answer, error) {
	var request helmRequest
	if err := read(line, &request); err != nil {
		return nil, err
	}
	home := os.Getenv(workerScratch)
	folder := request.Dir
	if request.Files != nil || request.Files64 != nil {
		if folder != "" {
			return nil, wrongRequest{errors.New("either dir or files")}
		}
		var err error
		if folder, err = os.MkdirTemp(home, "files-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder)
		for name, text := range request.Files {
			if err := writeFile(filepath.Join(folder, name), []byte(text)); err != nil {
				return nil, wrongRequest{err}
			}
		}
		for name, bytes := range request.Files64 {
			if err := writeFile(filepath.Join(folder, name), bytes); err != nil {
				return nil, wrongRequest{err}
			}
		}
	}
	if folder == "" {
		folder = home
	}
	if err := os.Chdir(folder); err != nil {
		return nil, wrongRequest{err}
	}
	// os.Getwd believes PWD where it is the same folder; a shell would have set it.
	os.Setenv("PWD", folder)
	defer os.Chdir(home)
	if err := fill(os.Stdin, request.Stdin); err != nil {
		return nil, err
	}

	code := runHelm(request.Args)

	result := answer{"code": code}
	for name, file := range map[string]*os.File{"stdout": os.Stdout, "stderr": os.Stderr} {
		text := captured(file)
		if request.Dir == "" {
			text = strings.ReplaceAll(text, folder, "{DIR}")
		}
		result.text(name, text)
	}
	return result, nil
}

func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// fill makes text all that can be read from a file that is open for appending.
func fill(file *os.File, text string) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	if _, err := file.WriteString(text); err != nil {
		return err
	}
	_, err := file.Seek(0, 0)
	return err
}

// runHelm does what the main function of Helm's binary does, and returns the exit code.
func runHelm(args []string) int {
	helmSettings = cli.New()
	cobraInitializers = nil
	warnedURNs.Clear()
	color.NoColor = colorIsOff
	// The command asks for signals and never gives that up.
	defer signal.Reset()
	kube.ManagedFieldsManager = "helm"
	command, err := helmcmd.NewRootCmd(os.Stdout, args, helmcmd.SetupLogging)
	if err != nil {
		slog.Warn("command failed", slog.Any("error", err))
		return 1
	}
	command.SetArgs(args)
	if err := command.Execute(); err != nil {
		if failed, ok := errors.AsType[helmcmd.CommandError](err); ok {
			return failed.ExitCode
		}
		return 1
	}
	return 0
}

// versions are Helm's and Go's.
func versions() (helm, golang string) {
	return "v" + helmVersion(), strings.TrimPrefix(runtime.Version(), "go")
}
