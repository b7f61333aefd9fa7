// Oracle tells what Helm, and the Go libraries that Helm is made of, make of a case.
//
// It reads requests as JSON lines on standard input and answers each with a JSON line, in order. README.md beside this
// file has the protocol.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

const usage = `usage: oracle [-j WORKERS] [-timeout DURATION]      answer requests (JSON lines) from standard input
       oracle goldens [-check] [-version FILE] [-j WORKERS] PATH...  write the outputs of fixtures anew
       oracle version                                print Helm's and Go's version
`

func main() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == workerCommand:
		err = work()
	case len(os.Args) > 1 && os.Args[1] == "goldens":
		err = goldensCommand(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "version":
		helm, golang := versions()
		fmt.Println(helm, golang)
	default:
		err = answerCommand(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// poolFlags are those that every command with workers has.
func poolFlags(name string) (flags *flag.FlagSet, workers *int, timeout *time.Duration) {
	flags = flag.NewFlagSet(name, flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	workers = flags.Int("j", 1, "how many processes answer at the same time")
	timeout = flags.Duration("timeout", 60*time.Second, "how long one request may take")
	return
}

func answerCommand(args []string) error {
	flags, workers, timeout := poolFlags("oracle")
	flags.Parse(args)
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown command %q\n%s", flags.Arg(0), usage)
	}
	pool, err := newPool(*workers, *timeout)
	if err != nil {
		return err
	}
	defer pool.close()
	return pool.serve(os.Stdin, os.Stdout)
}
