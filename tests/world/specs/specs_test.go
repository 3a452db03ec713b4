// The specs of Kubernetes that need an API server, controllers and simulated pods only.
package e2e

import (
	"context"
	"flag"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	"k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	fixtures "k8s.io/kubernetes/test/fixtures"

	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/common"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"

	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/utils/format"
)

// Simulated pods start within two seconds: waiting for minutes finds nothing more.
const (
	poll      = 200 * time.Millisecond
	podStart  = 30 * time.Second
	spec      = 75 * time.Second
	goodSpeed = 100
)

var takesContext = reflect.TypeOf(func(context.Context) {}).In(0)

func hurry(f *framework.Framework) {
	f.Timeouts.Poll = poll
	f.Timeouts.PodStart, f.Timeouts.PodStartShort, f.Timeouts.PodStartSlow = podStart, podStart, podStart
	f.Timeouts.PodDelete = podStart
	f.Options.ClientQPS, f.Options.ClientBurst = goodSpeed, goodSpeed
}

// limit ends a spec after some time, so that one that waits for a program in a pod costs no more.
func limit(kind types.NodeType, _ ginkgo.Offset, text string, args []any) (string, []any, []error) {
	for _, arg := range args {
		body := reflect.TypeOf(arg)
		isBody := body != nil && body.Kind() == reflect.Func && body.NumIn() == 1
		if kind == types.NodeTypeIt && isBody && body.In(0).Implements(takesContext) {
			return text, append(args, ginkgo.SpecTimeout(spec)), nil
		}
	}
	return text, args, nil
}

func TestMain(m *testing.M) {
	framework.NewFrameworkExtensions = append(framework.NewFrameworkExtensions, hurry)
	ginkgo.AddTreeConstructionNodeArgsTransformer(limit)
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.SetDefaultEventuallyPollingInterval(poll)
	gomega.SetDefaultEventuallyTimeout(podStart)
	os.Exit(m.Run())
}

func TestE2E(t *testing.T) { e2e.RunE2ETests(t) }
