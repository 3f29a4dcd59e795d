// Package multicall makes several programs one file, which behaves as the program whose name it is called by.
//
// Linked apart the programs of Kubernetes repeat each other and take twice as long to build.
package multicall

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata" // CronJob time zones

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// Main runs the component that the program is called as.
func Main(components map[string]func()) {
	name := filepath.Base(os.Args[0])
	component, ok := components[name]
	if !ok {
		names := make([]string, 0, len(components))
		for known := range components {
			names = append(names, known)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "%s: call this file by one of these names: %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	component()
}

// Run runs a component's command and exits.
func Run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
