package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// permitted finds the schedule of an action, and permits the user to act on it.
func permitted(ctx context.Context, a *site.Ask, action string) (inspect.ScheduleInfo, error) {
	s, err := one(ctx, a, a.Path("name"))
	if err == nil {
		err = a.Permit(action, guard.Target{Queue: s.Queue, Class: s.Class})
	}
	return s, err
}

// about is the address of a schedule's page below the prefix.
func about(name string) string {
	if name == "." || name == ".." || name == "" || name[0] == '~' {
		name = "~" + name
	}
	return "/schedule/" + url.PathEscape(name)
}

func pause(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	s, err := permitted(ctx, a, "schedule.pause")
	if err != nil {
		return site.Outcome{}, err
	}
	if s.Paused {
		return site.Outcome{Said: fmt.Sprintf("Schedule %s was paused already.", s.Name)}, nil
	}
	err = a.By().PauseSchedule(ctx, s.Name)
	a.Fleet.Forget(keyOfAll)
	return site.Outcome{Said: fmt.Sprintf("Schedule %s is paused: its times pass without a job. Ruby's schedulers do not know of it.", s.Name), Done: 1}, err
}

func resume(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	s, err := permitted(ctx, a, "schedule.resume")
	if err != nil {
		return site.Outcome{}, err
	}
	if !s.Paused {
		return site.Outcome{Said: fmt.Sprintf("Schedule %s was not paused.", s.Name)}, nil
	}
	err = a.By().ResumeSchedule(ctx, s.Name)
	a.Fleet.Forget(keyOfAll)
	return site.Outcome{Said: fmt.Sprintf("Schedule %s goes on with its next time.", s.Name), Done: 1}, err
}

func run(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	s, err := permitted(ctx, a, "schedule.run")
	if err != nil {
		return site.Outcome{}, err
	}
	args, given, err := argsOf(a, s)
	switch {
	case err != nil:
		return site.Outcome{}, err
	case given:
		err = a.By().RunScheduleWith(ctx, s.Name, args)
	default:
		err = a.By().RunSchedule(ctx, s.Name)
	}
	return site.Outcome{Said: fmt.Sprintf("A job of schedule %s is in queue %s.", s.Name, s.Queue), Done: 1}, err
}

// parameter is what stands before the names of parameters in forms.
const parameter = "p."

// argsOf are the arguments with which a schedule is to run, if the form says so: in args, or as the parameters of resque-scheduler, which
// become members of its one argument.
func argsOf(a *site.Ask, s inspect.ScheduleInfo) (args []json.RawMessage, given bool, err error) {
	if text := strings.TrimSpace(a.Value("args")); text != "" {
		args, err = parseArgs(a, s, text)
		return args, true, err
	}
	parameters := rawParameters(s)
	asked := slices.ContainsFunc(parameters, func(p Parameter) bool { return len(a.Values(parameter+p.Name)) > 0 })
	if !asked {
		return nil, false, nil
	}
	members := make(map[string]json.RawMessage)
	if len(s.Args) == 1 {
		_ = json.Unmarshal(s.Args[0], &members) // another argument is replaced, as Ruby does
	}
	if members == nil {
		members = make(map[string]json.RawMessage)
	}
	for _, p := range parameters {
		value := a.Value(parameter + p.Name)
		if value == maskedDefault(a, p) {
			value = p.Default
		}
		if members[p.Name], err = json.Marshal(value); err != nil {
			return nil, true, err
		}
	}
	one, err := json.Marshal(members)
	return []json.RawMessage{one}, true, err
}

// parseArgs reads arguments that were edited. What was masked and not touched stays.
func parseArgs(a *site.Ask, s inspect.ScheduleInfo, text string) ([]json.RawMessage, error) {
	var args []json.RawMessage
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		return nil, site.Bad(`the arguments are no list of JSON: %w; write them as ["a", 1]`, err)
	}
	if args == nil {
		args = []json.RawMessage{}
	}
	restored, err := a.Masks.Restore(s.Class, s.Args, args)
	var edit *mask.EditError
	if errors.As(err, &edit) {
		return nil, site.Bad("%w", err)
	}
	return restored, err
}

// set adds a schedule to Redis, or changes one there.
func set(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	name := a.Path("name")
	if name == "" {
		name = strings.TrimSpace(a.Value("name"))
	}
	if name == "" {
		return site.Outcome{}, site.Bad("the schedule needs a name")
	}
	was, err := a.In().Schedule(ctx, name)
	if err != nil && !errors.Is(err, inspect.ErrUnknownSchedule) {
		return site.Outcome{}, err
	}
	if err == nil && was.Kept && !sees(a, was) || err == nil && !was.Kept && !a.User.Whole() {
		return site.Outcome{}, site.Missing("there is no such schedule for you")
	}
	switch seen := a.Value("was"); {
	case seen == "new" && was.Kept:
		return site.Outcome{}, site.Changed(digestOf(was), "there is a schedule %s already; change that one", name)
	case seen != "" && seen != "new" && (!was.Kept || seen != digestOf(was)):
		return site.Outcome{}, site.Changed(nil, "schedule %s is other than you saw; look again", name)
	}
	config, err := configOf(ctx, a, was, name)
	if err != nil {
		return site.Outcome{}, err
	}
	var entry struct{ Class, Queue string }
	if err := json.Unmarshal(config, &entry); err != nil {
		return site.Outcome{}, site.Bad("the schedule is no entry of resque-scheduler: %w", err)
	}
	if err := a.Permit("schedule.set", guard.Target{Queue: entry.Queue, Class: cmp.Or(entry.Class, name)}); err != nil {
		return site.Outcome{}, err
	}
	old, err := a.By().SetSchedule(ctx, name, config)
	a.Fleet.Forget(keyOfAll)
	if errors.Is(err, inspect.ErrSchedule) {
		return site.Outcome{}, site.Bad("%w", err)
	}
	if err != nil {
		return site.Outcome{}, err
	}
	said := fmt.Sprintf("Schedule %s is in Redis. Daemons that read schedules there, and Ruby's, have it within seconds.", name)
	if old != nil {
		said = fmt.Sprintf("Schedule %s is changed.", name)
	}
	return site.Outcome{Said: said, Done: 1, To: about(name)}, nil
}

// configOf is the entry that the form describes.
func configOf(ctx context.Context, a *site.Ask, was inspect.ScheduleInfo, name string) (json.RawMessage, error) {
	if a.Flag("undo") {
		return deleted(ctx, a, name)
	}
	fields := make(map[string]json.RawMessage)
	if text := a.Value("config"); text != "" {
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			return nil, site.Bad("the config is no object of JSON: %w", err)
		}
		if args := fields["args"]; len(args) > 0 && args[0] == '[' && was.Kept {
			restored, err := parseArgs(a, was, string(args))
			if err != nil {
				return nil, err
			}
			fields["args"], _ = json.Marshal(restored)
		}
		return json.Marshal(fields)
	}
	if was.Kept {
		_ = json.Unmarshal(was.Config, &fields) // one that cannot be read is replaced
	}
	if fields == nil {
		fields = make(map[string]json.RawMessage)
	}
	put := func(field, value string) {
		delete(fields, field)
		if value = strings.TrimSpace(value); value != "" {
			fields[field], _ = json.Marshal(value)
		}
	}
	cron, every, zone := strings.TrimSpace(a.Value("cron")), strings.TrimSpace(a.Value("every")), strings.TrimSpace(a.Value("zone"))
	switch {
	case cron != "" && every != "":
		return nil, site.Bad("cron and every both say when; give one of them")
	case cron == "" && every == "":
		return nil, site.Bad("say when: as a cron, or in every")
	case zone != "" && cron != "":
		cron += " " + zone
	}
	for field, old := range map[string]struct{ is, now string }{"cron": {was.Cron, cron}, "every": {(Row{Every: site.Span(was.Every)}).EveryText(), every}} {
		if old.is != old.now || fields[field] == nil { // else a first_in beside it stays
			put(field, old.now)
		}
	}
	put("class", a.Value("class"))
	put("queue", a.Value("queue"))
	put("description", a.Value("description"))
	if values := a.Values("environments"); len(values) > 0 {
		delete(fields, "env")
		put("rails_env", values[0])
	}
	if text := strings.TrimSpace(a.Value("args")); text != "" {
		args, err := parseArgs(a, was, text)
		if err != nil {
			return nil, err
		}
		fields["args"], _ = json.Marshal(args)
	} else {
		delete(fields, "args")
	}
	return json.Marshal(fields)
}

// recent is how many lines of the audit are looked through for a schedule that was deleted.
const recent = 500

// deleted is what a schedule was that was deleted, as the audit has it.
func deleted(ctx context.Context, a *site.Ask, name string) (json.RawMessage, error) {
	entries, err := a.In().Audit(ctx, recent)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.What != "RemoveSchedule" || e.On != "schedule "+name || e.Old == "" {
			continue
		}
		if !json.Valid([]byte(e.Old)) {
			return nil, site.Missing("the audit has only a part of the schedule %s, because it is long; add it again with its form", name)
		}
		return json.RawMessage(e.Old), nil
	}
	return nil, site.Missing("nobody has deleted a schedule %s lately", name)
}

// remove deletes a schedule that is kept in Redis.
func remove(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	s, err := permitted(ctx, a, "schedule.delete")
	if err != nil {
		return site.Outcome{}, err
	}
	if seen := a.Value("was"); seen != "" && s.Kept && seen != digestOf(s) {
		return site.Outcome{}, site.Changed(digestOf(s), "schedule %s is other than you saw; look again", s.Name)
	}
	err = a.By().RemoveSchedule(ctx, s.Name)
	a.Fleet.Forget(keyOfAll)
	if err != nil {
		return site.Outcome{}, err
	}
	out := site.Outcome{Said: fmt.Sprintf("Schedule %s is deleted. Jobs that it has enqueued stay.", s.Name), Done: 1, To: "/schedule"}
	if s.Broken == nil {
		out.Back = &site.Back{Action: "schedule.set", Path: about(s.Name) + "/set", Fields: map[string]string{"undo": "1", "was": "new"}}
	}
	return out, nil
}
