package resque

import (
	"slices"
	"testing"
)

// Each key of Resque's and goworker's has a family, and no family is of a key that is gone.
func TestFamiliesNameAllKeys(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, row := range Fates {
		rows = append(rows, row.Key)
		if families()[row.Key].Name == "" {
			t.Errorf("%s has no family", row.Key)
		}
	}
	for key := range families() {
		if !slices.Contains(rows, key) {
			t.Errorf("%s has a family and no fate", key)
		}
	}
}

func TestFamilyOf(t *testing.T) {
	t.Parallel()
	s := New("my:app")
	for name, want := range map[string]Family{
		"queue:mail": {"queue", Payloads}, "go:queue:mail": {"queue", Payloads}, "queues": {"names of queues", Names}, "failed": {"failed", Payloads},
		"mail_failed": {"failed", Payloads}, "go:inflight:p": {"go:inflight", Payloads}, "delayed:17": {"delayed jobs", Payloads}, "go:schedule": {Name: "delayed jobs"},
		"go:result:a_failed": {Name: "result documents"}, "go:http:tokens": {Name: "tokens"}, "go:webhook:ops:state": {Name: "webhooks"},
		"go:wf-lock:x": {Name: "workflows"}, "go:new:x": {Name: "goworker, another release"}, "lock:mine": OtherFamily, "queue:": OtherFamily,
		"my:app:resque_scheduler_master_lock": {Name: "schedules"}, "my:app:prefix:resque_scheduler_master_lock": {Name: "schedules"},
	} {
		if f, ok := s.FamilyOf("my:app:" + name); !ok || f != want {
			t.Errorf("%s is of %+v, want %+v", name, f, want)
		}
	}
	for _, key := range []string{"my:apps:queue:mail", "other", "my:app:"} {
		if f, ok := s.FamilyOf(key); ok {
			t.Errorf("%s is of %+v", key, f)
		}
	}
}
