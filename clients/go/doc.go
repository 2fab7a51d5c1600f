// Package turnwire runs agent turns on a Turnwire server.
//
// The messages and stubs of the contract are in turnwire.dev/go/turnwire/v1. By
// hand there is only what every caller would write again: following a run
// across cut connections (Client.Follow), folding its events (RunView),
// answering what it waits for (Client.Run) and reading errors (Error).
package turnwire
