// Package main is a control plane of Kubernetes as one program, with kwok for its nodes and kubectl for its users.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"flotilla/controlplane/multicall"
)

func main() {
	multicall.Main(map[string]func(){
		"etcd":                    func() { etcdmain.Main(os.Args) },
		"kube-apiserver":          func() { multicall.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() { multicall.Run(controllermanager.NewControllerManagerCommand()) },
		"kube-scheduler":          func() { multicall.Run(scheduler.NewSchedulerCommand()) },
		"kubectl":                 runKubectl,
		"kwok":                    runKwok,
	})
}

// kubectl reads -v before it builds its commands and prints its errors itself.
func runKubectl() {
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
