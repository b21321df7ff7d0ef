package argv

import "testing"

func TestSize(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{
		"1": 1, "65536": 65536, "512k": 512_000, "512K": 512_000, "1kB": 1000, "1KiB": 1024, "64MiB": 64 << 20, " 64 mib ": 64 << 20,
		"1.5MB": 1_500_000, "0.5GiB": 512 << 20, "1b": 1,
	} {
		s := Size{Most: 512 << 20}
		if err := s.Set(value); err != nil || s.Bytes != want {
			t.Errorf("%q is %d bytes, %v; want %d", value, s.Bytes, err, want)
		}
		again := Size{Most: s.Most}
		if err := again.Set(s.String()); err != nil || again.Bytes != s.Bytes {
			t.Errorf("%q prints %q and comes back as %d, %v", value, s.String(), again.Bytes, err)
		}
	}
	for _, value := range []string{"", "0", "-1", "x", "1x", "MB", "1.5", "1e3", "1GB", "1i", "0x10", "1 2", "NaN", "99999999999999999999GB"} {
		s := Size{Bytes: 7, Most: 512 << 20}
		if err := s.Set(value); err == nil || s.Bytes != 7 {
			t.Errorf("%q is %d bytes, %v", value, s.Bytes, err)
		}
	}
}
