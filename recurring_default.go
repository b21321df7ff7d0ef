package goworker

// Schedule enqueues a job again and again; see Daemon.Schedule.
func Schedule(name string, r Recurring) error { return std().Schedule(name, r) }

// Unschedule ends a recurring schedule; see Daemon.Unschedule.
func Unschedule(name string) (bool, error) { return std().Unschedule(name) }

// Schedules returns the recurring schedules; see Daemon.Schedules.
func Schedules() ([]ScheduleInfo, error) { return std().Schedules() }

// PauseSchedule makes a schedule's ticks pass without a job; see Daemon.PauseSchedule.
func PauseSchedule(name string) error { return std().PauseSchedule(name) }

// ResumeSchedule ends PauseSchedule; see Daemon.ResumeSchedule.
func ResumeSchedule(name string) error { return std().ResumeSchedule(name) }

// RunScheduleNow enqueues a schedule's job once; see Daemon.RunScheduleNow.
func RunScheduleNow(name string) error { return std().RunScheduleNow(name) }
