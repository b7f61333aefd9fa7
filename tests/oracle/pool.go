package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// The longest line that is read.
const maxLine = 1 << 28

// A pool of worker processes. Helm keeps settings in global variables and some inputs kill a Go process (a stack
// overflow can't be recovered from), so requests are never run in the process that reads them.
type pool struct {
	scratch string
	timeout time.Duration
	idle    chan *workerProcess
	size    int
}

type workerProcess struct {
	name    string
	command *exec.Cmd
	// What the worker prints; the worker empties both before each request.
	stdin, stdout, stderr *os.File
	requests              io.WriteCloser
	answers               *bufio.Reader
}

func newPool(size int, timeout time.Duration) (*pool, error) {
	if size < 1 {
		return nil, fmt.Errorf("-j must be at least 1, not %d", size)
	}
	scratch, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return nil, err
	}
	p := &pool{scratch: scratch, timeout: timeout, idle: make(chan *workerProcess, size), size: size}
	for at := range size {
		p.idle <- &workerProcess{name: fmt.Sprint(at)}
	}
	return p, nil
}

func (p *pool) close() {
	for range p.size {
		(<-p.idle).stop()
	}
	os.RemoveAll(p.scratch)
}

// environment is the one of every worker: nothing of this machine's Helm or cluster, and one time zone.
func (p *pool) environment(home string) []string {
	environment := []string{
		"HOME=" + home, "HELM_CONFIG_HOME=" + home + "/config", "HELM_CACHE_HOME=" + home + "/cache",
		"HELM_DATA_HOME=" + home + "/data", "KUBECONFIG=/dev/null", "TZ=UTC", "LC_ALL=C",
		// A worker answers one request at a time; more threads would only take the cores of the other workers.
		"GOMAXPROCS=1", workerScratch + "=" + home,
	}
	for _, name := range []string{"PATH", "TMPDIR", "ZONEINFO", "ORACLE_GOMAXPROCS"} {
		if value, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

func (p *pool) start(w *workerProcess) (err error) {
	home := filepath.Join(p.scratch, w.name)
	if err = os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	open := func(name string) (file *os.File) {
		if err == nil {
			file, err = os.OpenFile(filepath.Join(home, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
		}
		return file
	}
	w.stdin, w.stdout, w.stderr = open("stdin"), open("stdout"), open("stderr")
	if err != nil {
		return err
	}
	requestsRead, requestsWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	answersRead, answersWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w.command = exec.Command(self, workerCommand)
	w.command.Env = p.environment(home)
	w.command.Stdin, w.command.Stdout, w.command.Stderr = w.stdin, w.stdout, w.stderr
	w.command.ExtraFiles = []*os.File{requestsRead, answersWrite}
	if err := w.command.Start(); err != nil {
		return err
	}
	requestsRead.Close()
	answersWrite.Close()
	w.requests, w.answers = requestsWrite, bufio.NewReader(answersRead)
	return nil
}

// stop returns how the worker ended.
func (w *workerProcess) stop() error {
	if w.command == nil {
		return nil
	}
	w.requests.Close()
	err := w.command.Wait()
	for _, file := range []*os.File{w.stdin, w.stdout, w.stderr} {
		file.Close()
	}
	w.command = nil
	return err
}

// ask returns the answer to one request, a JSON object without a line feed.
func (p *pool) ask(request []byte) []byte {
	w := <-p.idle
	defer func() { p.idle <- w }()
	if w.command == nil {
		if err := p.start(w); err != nil {
			return failure("fatal", "no worker: "+err.Error())
		}
	}
	killed := false
	guard := time.AfterFunc(p.timeout, func() {
		killed = true
		w.command.Process.Kill()
	})
	_, err := w.requests.Write(append(bytes.TrimRight(request, "\n"), '\n'))
	var line []byte
	if err == nil {
		line, err = w.answers.ReadBytes('\n')
	}
	guard.Stop()
	if err == nil {
		return bytes.TrimRight(line, "\n")
	}
	stderr, _ := os.ReadFile(filepath.Join(p.scratch, w.name, "stderr"))
	end := w.stop()
	if killed {
		return failure("timeout", p.timeout.String())
	}
	return failure("fatal", fatalText(string(stderr), end))
}

var fatalLine = regexp.MustCompile(`(?m)^(?:fatal error: .*|panic: .*|SIG[A-Z]+: .*)$`)

// fatalText is the line of a crash that says why.
func fatalText(stderr string, end error) string {
	if line := fatalLine.FindString(stderr); line != "" {
		return line
	}
	if len(stderr) > 300 {
		stderr = stderr[:300]
	}
	if end == nil {
		end = errors.New("the worker ended")
	}
	return strings.TrimSpace(end.Error() + "\n" + stderr)
}

// failure is the answer to a request that has no outcome.
func failure(kind, text string) []byte {
	return encode(map[string]string{kind: text})
}

// encode writes JSON on one line, without HTML's escapes.
func encode(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return encode(map[string]string{"fatal": "an answer can't be written as JSON: " + err.Error()})
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

// serve answers line by line, in order, as soon as an answer and all before it are there.
func (p *pool) serve(in io.Reader, out io.Writer) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 1<<16), maxLine)
	writer := bufio.NewWriter(out)
	slots := make(chan chan []byte, 4*p.size)
	var done sync.WaitGroup
	var failed error
	done.Add(1)
	go func() {
		defer done.Done()
		for slot := range slots {
			writer.Write(<-slot)
			writer.WriteByte('\n')
			if len(slots) == 0 {
				if err := writer.Flush(); err != nil && failed == nil {
					failed = err
				}
			}
		}
	}()
	for scanner.Scan() {
		line := bytes.Clone(scanner.Bytes())
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		slot := make(chan []byte, 1)
		slots <- slot
		go func() { slot <- p.ask(line) }()
	}
	close(slots)
	done.Wait()
	writer.Flush()
	return errors.Join(scanner.Err(), failed)
}
