package schedule

import (
	"testing"
	"time"
)

// Crons are said in words where a sentence is clear, and are left alone elsewhere.
func TestWords(t *testing.T) {
	t.Parallel()
	for cron, want := range map[string]string{
		"* * * * *": "every minute", "*/10 * * * *": "every 10 minutes", "*/30 * * * *": "every 30 minutes", "0 * * * *": "every hour", "15 * * * *": "at minute 15",
		"0,30 * * * *": "at minutes 0 and 30", "0 */4 * * *": "every 4 hours", "15 */2 * * *": "at minute 15 past every 2nd hour", "5 */8 * * *": "at minute 5 past every 8th hour",
		"0 18 * * mon-fri": "on weekdays at 18:00", "0 18 * * 1-5 Europe/Berlin": "on weekdays at 18:00", "30 2 * * *": "daily at 02:30", "30 2 * * * UTC": "daily at 02:30",
		"30 2 * * * +02:00": "daily at 02:30", "0 9 L * *": "on the last day of the month at 09:00", "0 9 1 * *": "on day 1 of the month at 09:00",
		"0 9 1,15 * *": "on days 1 and 15 of the month at 09:00", "0 9 24 12 *": "on 24 December at 09:00", "0 9 * jan mon": "on Mondays in January at 09:00",
		"0 8,12,16 * * *": "daily at 08:00, 12:00 and 16:00", "0 0 * * 0": "on Sundays at 00:00", "0 0 * * 7": "on Sundays at 00:00", "0 7 * * tue,thu": "on Tuesdays and Thursdays at 07:00",
		"0 10 * * sat,sun": "at weekends at 10:00", "0 10 * * tue-thu": "from Tuesday to Thursday at 10:00", "*/10 8-18 * * mon-fri": "every 10 minutes from 08:00 to 18:59 on weekdays",
		"*/5 * * * sat": "every 5 minutes on Saturdays", "0 0 4 * * *": "daily at 04:00", "*/15 * * * * *": "every 15 seconds", "@daily": "daily at 00:00", "@hourly UTC": "every hour", "@weekly": "on Sundays at 00:00",
		"0 0 1 1,7 *": "on day 1 of January and July at 00:00", "0 3 * 12 *": "in December daily at 03:00",

		"*/7 * * * *": "", "*/1 * * * *": "", "0 0 13 * fri": "", "0 0 * * sun%2": "", "0 0 * * mon#1": "", "5-10 * * * *": "", "0 24 * * *": "", "0 0 */2 * *": "", "0 22-4 * * *": "",
		"* 22-4 * * *": "", "1,2,3,4,5 8 * * *": "", "30 0 4 * * *": "", "0 0 0 * *": "", "0 0 * * 8": "", "0 0 * 13 *": "", "x": "", "": "", "* * * *": "", "@never": "", "60 * * * *": "",
	} {
		if got := Words(cron); got != want {
			t.Errorf("%q is %q, want %q", cron, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		time.Second: "every 1 s", time.Minute: "every minute", 10 * time.Minute: "every 10 minutes", time.Hour: "every hour", 90 * time.Minute: "every 90 minutes", 24 * time.Hour: "every 24 hours",
		72 * time.Hour: "every 3 days", 6 * time.Hour: "every 6 hours",
	} {
		if got := every(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// What a cron may be makes no trouble.
func FuzzWords(f *testing.F) {
	f.Add("0 18 * * mon-fri Europe/Berlin")
	f.Fuzz(func(_ *testing.T, cron string) { Words(cron) })
}
