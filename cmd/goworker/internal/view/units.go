package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count writes a number with commas: 12,408.
func Count(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// Plural writes a number and a noun: 1 job, 12,408 jobs.
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Span writes a duration in at most two units: 1.4s, 4m10s, 2h, 3d4h.
func Span(d time.Duration) string {
	if d < 0 {
		return "-" + Span(-d)
	}
	two := func(big time.Duration, bigUnit string, small time.Duration, smallUnit string) string {
		d := d.Round(small)
		text := fmt.Sprintf("%d%s", d/big, bigUnit)
		if rest := d % big / small; rest > 0 {
			text += fmt.Sprintf("%d%s", rest, smallUnit)
		}
		return text
	}
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + "µs"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + "s"
	case d < time.Minute-time.Second/2:
		return strconv.FormatInt(int64(math.Round(d.Seconds())), 10) + "s"
	case d < time.Hour-time.Second/2:
		return two(time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour-time.Minute/2:
		return two(time.Hour, "h", time.Minute, "m")
	}
	return two(24*time.Hour, "d", time.Hour, "h")
}

// Rate writes how many there are in a second: 0, 0.1, 9, 312, 12,408.
func Rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 0.05:
		return "<0.1"
	case perSecond < 9.95:
		return strconv.FormatFloat(math.Round(perSecond*10)/10, 'f', -1, 64)
	}
	return Count(int64(math.Round(perSecond)))
}

// Percent writes a part of a whole.
func Percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return strconv.FormatInt(int64(math.Round(float64(part)/float64(whole)*100)), 10) + " %"
}

// Bytes writes a size: 512 B, 1.2 MiB.
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n), 0
	for size >= 1<<10 && unit < 4 {
		size, unit = size/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %ciB", size, " KMGT"[unit])
}

// Time writes a moment, in UTC; "-" is none.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// Ago writes how long ago a moment was; "-" is none.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Span(max(0, now.Sub(t)))
}
