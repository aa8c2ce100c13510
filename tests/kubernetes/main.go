// Kubernetes's API server, and the etcd that it keeps its objects in, in one program:
// `control-plane apiserver FLAGS`, `control-plane etcd FLAGS`.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "etcd":
		etcdmain.Main(os.Args[1:])
	case len(os.Args) > 1 && os.Args[1] == "apiserver":
		command := app.NewAPIServerCommand()
		command.SetArgs(os.Args[2:])
		os.Exit(cli.Run(command))
	default:
		fmt.Fprintln(os.Stderr, "usage: control-plane apiserver|etcd FLAGS")
		os.Exit(2)
	}
}
