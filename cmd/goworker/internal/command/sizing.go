package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/internal/sizing"
)

// sizes says what a load needs. It asks no Redis.
func sizes() *cobra.Command {
	var l sizing.Load
	rate, asJSON := "", false
	c := &cobra.Command{
		Use: "sizing --rate RATE --duration TIME", Short: "Say how many processes, connections and Redises a load needs", Args: noArguments,
		Long: "sizing computes by a model what a load of jobs needs. It asks no Redis. Its figures are those of goworker's benchmarks, measured on one\n" +
			"machine: take them as a first guess, and measure yours. --rate is that of the busiest minutes.",
		Example: "  goworker sizing --rate 500/s --duration 200ms\n  goworker sizing --rate 50/m --duration 90s --wait 1m --workers 10\n" +
			"  goworker sizing --rate 2000/s --duration 50ms --kind limited --waiting 7200000 --size 400",
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if l.Rate, err = perSecond(rate); err != nil {
				return usageError{err}
			}
			if !c.Flags().Changed("duration") {
				return usageError{fmt.Errorf("--duration is missing: how long a job runs in the mean, such as 200ms")}
			}
			p, err := sizing.Measured().Of(l)
			if err != nil {
				return usageError{err}
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(sizesJSON(p))
			}
			return printSizes(c.OutOrStdout(), p)
		},
	}
	flags := c.Flags()
	flags.StringVar(&rate, "rate", "", "how many jobs come, such as 500/s, 50/m or 1000/h")
	flags.DurationVar(&l.Duration, "duration", 0, "how long a job runs, in the mean")
	flags.StringVar(&l.Kind, "kind", sizing.Plain, "what the jobs use: "+strings.Join(sizing.Kinds(), ", "))
	flags.IntVar(&l.Size, "size", sizing.DefaultSize, "the length of a job in its queue, in bytes")
	flags.DurationVar(&l.Wait, "wait", sizing.DefaultWait, "how long 95 of a hundred jobs may wait for a worker")
	flags.IntVar(&l.Workers, "workers", sizing.DefaultWorkers, "workers of a process: its -concurrency")
	flags.IntVar(&l.Processes, "processes", 0, "how many processes there are; 0 says how many are needed, and one more")
	flags.DurationVar(&l.Trip, "round-trip", sizing.DefaultTrip, "the time of a round trip to Redis")
	flags.IntVar(&l.Waiting, "waiting", 0, "how many jobs may wait in queues, as in an hour without workers")
	flags.BoolVar(&asJSON, "json", false, "print an object of JSON")
	return c
}

// perSecond reads a rate such as 500/s.
func perSecond(text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	per, known := map[string]float64{"s": 1, "m": 60, "h": 3600, "": 1}[unit]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !known {
		return 0, fmt.Errorf("--rate is %q: it must be a number of jobs for a second, a minute or an hour, such as 500/s, 50/m or 1000/h", text)
	}
	return v / per, nil
}

func printSizes(out io.Writer, p sizing.Plan) error {
	var text strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&text, "%-13s%s\n", what, fmt.Sprintf(format, args...))
	}
	line("workers", "%s, of which %s are busy in the mean; 95 of 100 jobs wait less than %s", view.Count(int64(p.Needed)), decimal(p.Busy), p.Load.Wait)
	line("processes", "%s of %d workers%s", view.Count(int64(p.Processes)), p.Load.Workers, map[bool]string{true: "", false: ", which is too few: jobs pile up"}[p.Stable])
	if p.Stable {
		line("late", "%s %% of the jobs wait longer than %s", decimal(100*p.Late), p.Load.Wait)
	}
	line("connections", "%s to each Redis, and those of producers", view.Count(int64(p.Connections)))
	line("commands", "%s a job, %s/s", decimal(p.Commands+p.Woken), view.Count(int64(p.Rate*(p.Commands+p.Woken))))
	line("Redis", "%s %% of a core (%s µs a job)%s", decimal(100*p.RedisBusy), decimal(micros(p.RedisTime)), redises(p.Redises))
	if p.Exchange > p.Trip {
		line("", "its exchanges wait for each other and take %s, so that each serves more jobs", p.Exchange.Round(100*time.Microsecond))
	}
	line("processors", "%s cores for all processes (%s µs a job), without the handlers", decimal(p.WorkerCores), decimal(micros(p.WorkerTime)))
	line("network", "%s bytes a job, %s MB/s", decimal(p.Bytes), decimal(p.Rate*p.Bytes/1e6))
	line("memory", "%s MiB a process, without what handlers keep; %s MiB in Redis", decimal(p.ProcessBytes/(1<<20)), decimal(p.RedisBytes/(1<<20)))
	_, err := io.WriteString(out, text.String())
	return err
}

func redises(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" of each of %d Redises, which share the queues: fewer would be too slow", n)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// decimal is a number with two digits or more.
func decimal(v float64) string {
	switch {
	case v >= 10:
		return view.Count(int64(v + 0.5))
	case v >= 0.01 || v == 0:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return "less than 0.01"
}

func sizesJSON(p sizing.Plan) any {
	return struct {
		Workers     int     `json:"workers"`
		Processes   int     `json:"processes"`
		Busy        float64 `json:"busy"`
		Late        float64 `json:"late"`
		Stable      bool    `json:"stable"`
		Connections int     `json:"connections"`
		Commands    float64 `json:"commands_per_job"`
		RedisBusy   float64 `json:"redis_cores"`
		Redises     int     `json:"redises"`
		RedisTime   float64 `json:"redis_us_per_job"`
		WorkerTime  float64 `json:"process_us_per_job"`
		WorkerCores float64 `json:"process_cores"`
		Bytes       float64 `json:"bytes_per_job"`
		Process     float64 `json:"process_bytes"`
		Redis       float64 `json:"redis_bytes"`
	}{
		p.Needed, p.Processes, p.Busy, p.Late, p.Stable, p.Connections, p.Commands + p.Woken, p.RedisBusy, p.Redises, micros(p.RedisTime), micros(p.WorkerTime),
		p.WorkerCores, p.Bytes, p.ProcessBytes, p.RedisBytes,
	}
}
