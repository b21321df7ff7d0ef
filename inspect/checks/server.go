package checks

import "github.com/goworker/goworker/internal/resque"

var serverChecks = []*Check{{
	Number: 1, Name: "redis-version", Severity: Error, Uses: Doctor, Title: "the version of Redis",
	Bound:    Bound{6.2, "version"},
	Sentence: "the server is Redis {version}, and goworker needs 6.2 or newer",
	Remedy:   "upgrade Redis, or use Valkey",
	look: func(l *look) error {
		info, err := info(l)
		if err != nil {
			return err
		}
		if version := info.Text("redis_version"); info.Text("valkey_version") == "" && versionOf(version).before(6, 2, 0) {
			l.find(values{"version": words(version)})
		}
		return nil
	},
}}

// info is what Redis says of itself.
func info(l *look) (resque.ServerInfo, error) {
	return read(l, "info", func() (resque.ServerInfo, error) { return l.store.ServerInfo(l.conn) })
}
