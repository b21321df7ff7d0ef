package deploy

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/health"
)

// scaledObject is what of KEDA's ScaledObject the files use: keda.sh/v1alpha1.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		PollingInterval *int32 `json:"pollingInterval"`
		CooldownPeriod  *int32 `json:"cooldownPeriod"`
		MinReplicaCount *int32 `json:"minReplicaCount"`
		MaxReplicaCount *int32 `json:"maxReplicaCount"`
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type       string                         `json:"type"`
			MetricType autoscalingv2.MetricTargetType `json:"metricType"`
			Metadata   map[string]string              `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// endpoint is what of an endpoint of Prometheus' operator the files use.
type endpoint struct {
	Port     string `json:"port"`
	Path     string `json:"path"`
	Interval string `json:"interval"`
}

// serviceMonitor and podMonitor are monitoring.coreos.com/v1.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []endpoint           `json:"endpoints"`
	} `json:"spec"`
}

type podMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []endpoint           `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// kinds are all kinds that the files may have.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                      func() any { return new(appsv1.Deployment) },
	"v1 Secret":                               func() any { return new(corev1.Secret) },
	"v1 Service":                              func() any { return new(corev1.Service) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networkingv1.NetworkPolicy) },
	"autoscaling/v2 HorizontalPodAutoscaler":  func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"keda.sh/v1alpha1 ScaledObject":           func() any { return new(scaledObject) },
	"monitoring.coreos.com/v1 PodMonitor":     func() any { return new(podMonitor) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(serviceMonitor) },
}

// decode reads a document, and refuses keys that its kind does not have, and doubled ones.
func decode(document []byte) (any, error) {
	var of metav1.TypeMeta
	if err := yaml.Unmarshal(document, &of); err != nil {
		return nil, err
	}
	kind := kinds[of.APIVersion+" "+of.Kind]
	if kind == nil {
		return nil, unknownKind(of.APIVersion + " " + of.Kind)
	}
	object := kind()
	return object, yaml.UnmarshalStrict(document, object)
}

type unknownKind string

func (k unknownKind) Error() string { return "no kind " + string(k) + " is known here" }

// cluster is all that the files make.
type cluster map[string]any

// manifests reads all files of deploy/k8s.
func manifests(t *testing.T) cluster {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "k8s", "*"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	all := make(cluster)
	for _, file := range files {
		for _, document := range bytes.Split([]byte(read(t, file)), []byte("\n---\n")) {
			object, err := decode(document)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			meta := object.(metav1.ObjectMetaAccessor).GetObjectMeta()
			kind := kindOf(document) + " " + meta.GetName()
			if _, twice := all[kind]; twice || meta.GetName() == "" {
				t.Errorf("%s: %q is there twice, or has no name", file, kind)
			}
			all[kind] = object
		}
	}
	return all
}

func kindOf(document []byte) string {
	var of metav1.TypeMeta
	_ = yaml.Unmarshal(document, &of)
	return of.Kind
}

func get[T any](t *testing.T, c cluster, name string) *T {
	t.Helper()
	object, ok := c[name].(*T)
	if !ok {
		t.Fatalf("no file has %s", name)
	}
	return object
}

// Strictness is what these tests stand on: a misspelled key of each kind is refused.
func TestMisspelledKeysAreRefused(t *testing.T) {
	t.Parallel()
	for file, words := range map[string][]string{
		"deployment.yaml":   {"terminationGracePeriodSeconds", "maxUnavailable", "livenessProbe", "resourceFieldRef", "defaultMode"},
		"disruption.yaml":   {"maxUnavailable"},
		"network.yaml":      {"policyTypes", "namespaceSelector"},
		"hpa.yaml":          {"stabilizationWindowSeconds", "maxReplicas"},
		"scaledobject.yaml": {"cooldownPeriod", "metricType", "stabilizationWindowSeconds", "triggers"},
		"podmonitor.yaml":   {"podMetricsEndpoints"},
		"secret.yaml":       {"stringData"},
	} {
		text := read(t, filepath.Join(deploy, "k8s", file))
		for _, word := range words {
			wrong := strings.Replace(text, word+":", word+"s:", 1)
			if _, err := decode([]byte(wrong)); wrong == text || err == nil {
				t.Errorf("%s is accepted with %ss", file, word)
			}
		}
		if _, err := decode([]byte(text + "\nspec: {}\n")); err == nil && file != "secret.yaml" {
			t.Errorf("%s is accepted with two specs", file)
		}
	}
	if _, err := decode([]byte("apiVersion: apps/v1\nkind: Deploiment\n")); err == nil {
		t.Error("an unknown kind is accepted")
	}
}

// The pods have the time of a stop, and what probes ask is there.
func TestDeployment(t *testing.T) {
	t.Parallel()
	c := manifests(t)
	d := get[appsv1.Deployment](t, c, "Deployment worker")
	pod, stop := d.Spec.Template.Spec, goworker.StopTime(goworker.WorkerSettings{})
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace != stop+5*time.Second {
		t.Errorf("a pod has %s to stop, and a stop takes up to %s", grace, stop)
	}
	worker := pod.Containers[0]
	if worker.Lifecycle != nil {
		t.Error("a preStop takes its time from the jobs")
	}
	if r := d.Spec.Strategy.RollingUpdate; *r.MaxUnavailable != intstr.FromInt32(0) || r.MaxSurge.IntValue() < 1 {
		t.Errorf("a rolling update has fewer pods than before: %+v", r)
	}
	if p := get[policyv1.PodDisruptionBudget](t, c, "PodDisruptionBudget worker"); p.Spec.MaxUnavailable.IntValue() != 1 || !selects(t, p.Spec.Selector, d.Spec.Template.Labels) {
		t.Errorf("the budget is %+v", p.Spec)
	}
	if !selects(t, d.Spec.Selector, d.Spec.Template.Labels) {
		t.Error("the deployment does not select its pods")
	}

	daemon := goworker.New(goworker.WorkerSettings{QueuesString: "a"})
	defer daemon.Close()
	h := health.Handler(daemon)
	for want, p := range map[string]*corev1.Probe{"/startupz": worker.StartupProbe, "/healthz": worker.LivenessProbe, "/readyz": worker.ReadinessProbe} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, p.HTTPGet.Path, nil))
		if p.HTTPGet.Path != want || w.Code == http.StatusNotFound || p.HTTPGet.Port.StrVal != worker.Ports[0].Name {
			t.Errorf("a probe asks %s at port %s: %d", p.HTTPGet.Path, p.HTTPGet.Port.StrVal, w.Code)
		}
	}
	port := worker.Ports[0].ContainerPort
	if !slices.Contains(worker.Args, "-health=:"+strconv.Itoa(int(port))) {
		t.Errorf("the program with %q does not listen at %d", worker.Args, port)
	}
	network := get[networkingv1.NetworkPolicy](t, c, "NetworkPolicy worker")
	if network.Spec.Ingress[0].Ports[0].Port.IntValue() != int(port) || !selects(t, &network.Spec.PodSelector, d.Spec.Template.Labels) {
		t.Errorf("the network lets nobody to port %d: %+v", port, network.Spec)
	}

	env := make(map[string]corev1.EnvVar)
	for _, e := range worker.Env {
		env[e.Name] = e
	}
	request, limit := worker.Resources.Requests.Memory().Value(), worker.Resources.Limits.Memory().Value()
	if of := env["GOMEMLIMIT"].ValueFrom.ResourceFieldRef; of.Resource != "requests.memory" || request*100 < limit*85 || request*100 > limit*92 {
		t.Errorf("GOMEMLIMIT is %s, which is %d of %d", of.Resource, request, limit)
	}
	if of := env["POD_NAME"].ValueFrom.FieldRef; of.FieldPath != "metadata.name" || !slices.Contains(worker.Args, "-hostname=$(POD_NAME)") {
		t.Error("the host name is not the pod's")
	}
	secret := get[corev1.Secret](t, c, "Secret worker-redis")
	mount, volume := worker.VolumeMounts[0], pod.Volumes[0]
	key, ok := strings.CutPrefix(env["REDIS_URL_FILE"].Value, mount.MountPath+"/")
	if _, there := secret.StringData[key]; !ok || !there || volume.Name != mount.Name || volume.Secret.SecretName != secret.Name {
		t.Errorf("the file %s with the URI is not there", env["REDIS_URL_FILE"].Value)
	}
	if mode := *volume.Secret.DefaultMode; mode != 0o440 || *pod.SecurityContext.FSGroup != *pod.SecurityContext.RunAsGroup {
		t.Errorf("the file with the URI has mode %o", mode)
	}
}

// Every pod runs as nobody, without rights, on a file system that it cannot write.
func TestPodsHaveNoRights(t *testing.T) {
	t.Parallel()
	for name, object := range manifests(t) {
		d, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pod := d.Spec.Template.Spec
		s := pod.SecurityContext
		if !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: its pods have %+v", name, s)
		}
		for _, c := range pod.Containers {
			s := c.SecurityContext
			if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("%s: its container has %+v", name, s)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
				t.Errorf("%s: its container has no limit of memory, or asks for no processor", name)
			}
		}
	}
}

// slowly is that a fleet shrinks by a fifth a minute at most.
func slowly(b *autoscalingv2.HorizontalPodAutoscalerBehavior) bool {
	for _, p := range b.ScaleDown.Policies {
		if p.Type != autoscalingv2.PercentScalingPolicy || p.Value > 20 || p.PeriodSeconds < 60 {
			return false
		}
	}
	return len(b.ScaleDown.Policies) > 0 && *b.ScaleDown.StabilizationWindowSeconds >= 300
}

func TestScaling(t *testing.T) {
	t.Parallel()
	c := manifests(t)
	s := get[scaledObject](t, c, "ScaledObject worker").Spec
	if *s.CooldownPeriod < 300 || *s.MinReplicaCount < 1 || *s.MaxReplicaCount <= *s.MinReplicaCount || c["Deployment "+s.ScaleTargetRef.Name] == nil {
		t.Errorf("it scales %+v", s)
	}
	if !slowly(s.Advanced.HorizontalPodAutoscalerConfig.Behavior) {
		t.Errorf("it shrinks by %+v", s.Advanced.HorizontalPodAutoscalerConfig.Behavior.ScaleDown)
	}
	queries := map[string]string{`max(goworker_queue_oldest_seconds{queue="mail"})`: "30", "max(goworker:busy_ratio or goworker:fleet_busy_ratio)": "0.8"}
	for _, trigger := range s.Triggers {
		m := trigger.Metadata
		if trigger.Type != "prometheus" || trigger.MetricType != autoscalingv2.ValueMetricType || queries[m["query"]] != m["threshold"] || m["serverAddress"] == "" {
			t.Errorf("a trigger is %+v", trigger)
		}
		delete(queries, m["query"])
		for name := range m {
			if !slices.Contains([]string{"serverAddress", "query", "threshold", "activationThreshold"}, name) {
				t.Errorf("a trigger of prometheus has no %s", name)
			}
		}
	}
	if len(queries) > 0 {
		t.Errorf("no trigger asks %v", queries)
	}
	h := get[autoscalingv2.HorizontalPodAutoscaler](t, c, "HorizontalPodAutoscaler worker").Spec
	if !slowly(h.Behavior) || c[h.ScaleTargetRef.Kind+" "+h.ScaleTargetRef.Name] == nil || h.Metrics[0].External.Target.Value.Value() != 30 {
		t.Errorf("the autoscaler without KEDA is %+v", h)
	}
}

// Prometheus finds what it is to read: the labels and the names of ports are there.
func TestMonitors(t *testing.T) {
	t.Parallel()
	c := manifests(t)
	p := get[podMonitor](t, c, "PodMonitor worker").Spec
	pods := get[appsv1.Deployment](t, c, "Deployment worker").Spec.Template
	if !selects(t, &p.Selector, pods.Labels) || p.PodMetricsEndpoints[0].Port != pods.Spec.Containers[0].Ports[0].Name {
		t.Errorf("the PodMonitor reads %+v", p)
	}
	m := get[serviceMonitor](t, c, "ServiceMonitor goworker-exporter").Spec
	service := get[corev1.Service](t, c, "Service goworker-exporter")
	exporter := get[appsv1.Deployment](t, c, "Deployment goworker-exporter").Spec.Template
	port, container := service.Spec.Ports[0], exporter.Spec.Containers[0]
	if !selects(t, &m.Selector, service.Labels) || m.Endpoints[0].Port != port.Name {
		t.Errorf("the ServiceMonitor reads %+v", m)
	}
	if !selects(t, &metav1.LabelSelector{MatchLabels: service.Spec.Selector}, exporter.Labels) || port.TargetPort.StrVal != container.Ports[0].Name {
		t.Errorf("the Service leads to %+v", service.Spec)
	}
	listens := regexp.MustCompile(`^--listen=:(\d+)$`).FindStringSubmatch(container.Args[len(container.Args)-1])
	if listens == nil || listens[1] != strconv.Itoa(int(container.Ports[0].ContainerPort)) {
		t.Errorf("the exporter with %q does not listen at its port", container.Args)
	}
	for _, e := range append(p.PodMetricsEndpoints, m.Endpoints...) {
		if _, err := time.ParseDuration(e.Interval); err != nil || e.Path != "/metrics" {
			t.Errorf("an endpoint is %+v", e)
		}
	}
}

func selects(t *testing.T, s *metav1.LabelSelector, labels map[string]string) bool {
	t.Helper()
	if s == nil || len(s.MatchLabels) == 0 || len(s.MatchExpressions) > 0 {
		return false
	}
	for name, value := range s.MatchLabels {
		if labels[name] != value {
			return false
		}
	}
	return true
}
