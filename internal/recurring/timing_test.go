package recurring

import (
	"testing"
	"time"
)

// The weeks are those of the version that an entry names, and programs that count
// different weeks do not take each other's ticks for their own.
func TestWeeksOfAnEntry(t *testing.T) {
	t.Parallel()
	next := func(fields string) (string, string) {
		d, err := Read("s", `{"cron":"0 9 * * sun%2 UTC","queue":"q"`+fields+`}`)
		if err != nil {
			t.Fatal(err)
		}
		return d.timing.next(time.Time{}, time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)).Format("01-02"), d.TimingHash()
	}
	newest, hash := next("")
	same, sameHash := next(`,"fugit":"1.12.3"`)
	old, oldHash := next(`,"fugit":1.11`)
	if newest != "01-25" || same != newest || old != "01-18" {
		t.Errorf("the next Sunday is %s; that of 1.12.3 %s, that of 1.11 %s", newest, same, old)
	}
	if hash != sameHash || hash == oldHash {
		t.Errorf("timings have the hashes %s, %s and %s", hash, sameHash, oldHash)
	}
}

// Zones with different offsets give different fire times, also where they have the same name.
func TestTimingsOfZones(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	daily := map[string]string{}
	for _, zone := range []*time.Location{time.UTC, berlin, time.FixedZone("Local", 3600), time.FixedZone("Local", 7200)} {
		timing, err := newTiming(Recurring{Cron: "@daily", Location: zone})
		if err != nil {
			t.Fatal(err)
		}
		daily[timing.hash] = zone.String()
	}
	if len(daily) != 4 {
		t.Errorf("four zones give %d timings: %v", len(daily), daily)
	}
}
