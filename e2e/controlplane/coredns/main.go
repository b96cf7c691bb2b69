// Command coredns answers for the names of a cluster, and for no others: of its plugins it has those alone that
// this takes.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

// In the order in which they are asked.
func init() {
	dnsserver.Directives = []string{"bind", "ready", "errors", "cache", "kubernetes", "template"}
}

func main() { coremain.Run() }
