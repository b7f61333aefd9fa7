package main

import "errors"

func goldensCommand(args []string) error { return errors.New("not there") }
