// Package main is what Kubernetes runs on a real node, as one program: kubelet and kube-proxy.
//
// It is apart from the control plane, since clusters with fake nodes alone do without it.
package main

import (
	"context"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"flotilla/controlplane/multicall"
)

func main() {
	multicall.Main(map[string]func(){
		"kubelet":    func() { multicall.Run(kubelet.NewKubeletCommand(context.Background())) },
		"kube-proxy": func() { multicall.Run(kubeproxy.NewProxyCommand()) },
	})
}
