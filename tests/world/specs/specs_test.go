// The specs of Kubernetes that need an API server, controllers and simulated pods only.
package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strconv"
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

const (
	poll      = 200 * time.Millisecond
	goodSpeed = 100
)

// Simulated pods start within two seconds: waiting for minutes finds nothing more. A machine that
// does other work as well needs patience.
var (
	podStart = patient(30 * time.Second)
	spec     = patient(75 * time.Second)
)

func patient(usual time.Duration) time.Duration {
	factor, err := strconv.ParseFloat(os.Getenv("SPECS_PATIENCE"), 64)
	if err != nil {
		return usual
	}
	return time.Duration(float64(usual) * factor)
}

// line is what the file of results says about the beginning or the end of a spec.
type line struct {
	Run     string  `json:"run"`
	Spec    string  `json:"spec"`
	State   string  `json:"state"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// running is the spec that has begun in this process: most others are left out from the start.
var running string

// report makes each spec leave its result at once: a report at the end is lost with any process of
// the suite.
func report() {
	ginkgo.ReportBeforeEach(func(spec ginkgo.SpecReport) {
		if !spec.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
			running = spec.FullText()
			write(line{Spec: running, State: "begun"})
		}
	})
	ginkgo.ReportAfterEach(func(spec ginkgo.SpecReport) {
		if name := spec.FullText(); name == running {
			state, seconds := spec.State.String(), spec.RunTime.Seconds()
			write(line{Spec: name, State: state, Reason: spec.FailureMessage(), Seconds: seconds})
		}
	})
}

func write(result line) {
	result.Run = os.Getenv("SPECS_RUN")
	text, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	// One write is one line, also beside other processes.
	file, err := os.OpenFile(os.Getenv("SPECS_RESULTS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(text, '\n')); err != nil {
		panic(err)
	}
}

var takesContext = reflect.TypeOf(func(context.Context) {}).In(0)

func hurry(f *framework.Framework) {
	f.Timeouts.Poll = poll
	f.Timeouts.PodStart, f.Timeouts.PodStartShort, f.Timeouts.PodStartSlow = podStart, podStart, podStart
	f.Timeouts.PodDelete = podStart
	f.Options.ClientQPS, f.Options.ClientBurst = goodSpeed, goodSpeed
}

// resync is a spec that waits until a controller checks all its objects again, which it does each
// five minutes.
const resync, resyncs = "should apply changes to a resourcequota status", 7 * time.Minute

// limit ends a spec after some time, so that one that waits for a program in a pod costs no more.
func limit(kind types.NodeType, _ ginkgo.Offset, text string, args []any) (string, []any, []error) {
	allowed := spec
	for _, arg := range args {
		// Texts are arguments as well until the framework has joined them.
		if arg == any(resync) {
			allowed = resyncs
		}
		body := reflect.TypeOf(arg)
		isBody := body != nil && body.Kind() == reflect.Func && body.NumIn() == 1
		if kind == types.NodeTypeIt && isBody && body.In(0).Implements(takesContext) {
			return text, append(args, ginkgo.SpecTimeout(allowed)), nil
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
	// The preview of all specs, which the flags bring, drops what was pushed before it.
	if os.Getenv("SPECS_RESULTS") != "" {
		report()
	}
	gomega.SetDefaultEventuallyPollingInterval(poll)
	gomega.SetDefaultEventuallyTimeout(podStart)
	os.Exit(m.Run())
}

func TestE2E(t *testing.T) { e2e.RunE2ETests(t) }
