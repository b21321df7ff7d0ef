package command

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cluster"
	"github.com/goworker/goworker/cmd/goworker/internal/config"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/sentinel"
)

// where are the settings that say where Redis is, which all commands take.
var where = []string{"redis", "resque_namespace", "redis_ca", "redis_cert", "redis_key"}

// flags gives a command the flags of settings, of all or of those named.
func flags(c *cobra.Command, named []string) {
	c.Flags().StringP("config", "c", "", "file with the settings: ours in YAML, or lmstfy's where the name ends in .toml")
	for _, r := range config.Rows {
		if named != nil && !slices.Contains(named, r.Name) {
			continue
		}
		help := r.Help + " [" + r.Variable()
		if r.Also != "" {
			help += ", " + r.Also
		}
		c.Flags().String(r.Flag(), r.Default, help+"]")
		if r.Bool {
			c.Flags().Lookup(r.Flag()).NoOptDefVal = "true"
		}
	}
}

// settings reads the settings of a command.
func (p *program) settings(c *cobra.Command, dev bool) (*config.Config, []string, error) {
	file, _ := c.Flags().GetString("config")
	given := make(map[string]string)
	c.Flags().Visit(func(f *pflag.Flag) {
		for _, r := range config.Rows {
			if r.Flag() == f.Name {
				given[r.Name] = f.Value.String()
			}
		}
	})
	s, notes, err := config.Load(config.Source{File: file, Lookup: p.lookup, Flags: given, Dev: dev})
	if err != nil {
		return nil, nil, usageError{err}
	}
	return s, notes, nil
}

// client returns a Client of a Redis and a namespace of Resque.
func client(s *config.Config, uri, namespace string) (*goworker.Client, error) {
	c, err := goworker.NewClient(goworker.WorkerSettings{
		URI: uri, Namespace: namespace, MaxPayload: s.MaxPayload, LogLevel: s.LogLevel, LogFormat: s.LogFormat, Connections: 4, History: s.History,
		TLSCertPath: s.RedisCA, TLSClientCertPath: s.RedisCert, TLSClientKeyPath: s.RedisKey,
	},
		goworker.WithDialer("redis+sentinel", sentinel.Open), goworker.WithDialer("rediss+sentinel", sentinel.Open),
		goworker.WithDialer("redis+cluster", cluster.Open), goworker.WithDialer("rediss+cluster", cluster.Open),
		goworker.WithDialer("embedded", embedded.Open))
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}
