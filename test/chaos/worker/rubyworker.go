package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// The recording of a Ruby worker has its name, its queues and its job.
const (
	recordedWorker = "vm:1428:high,low"
	recordedJob    = `{"class":"Echo","args":[1,"two"]}`
)

// rubyWorker is a worker of Ruby Resque: it sends what one has sent in a recording, with its own name, queues and jobs.
type rubyWorker struct {
	ledger
	c                    redis.Conn
	self                 string
	queues               []string
	begin, take, do, end [][]string // the recording: until it looks for jobs, until it has looked into all queues, until the job is done, when it stops
}

// runRubyWorker works queues until TERM, of which all jobs have what the classes of this program do once: Ruby tries no job again.
func (l ledger) runRubyWorker(address, recording string, queues []string) error {
	text, err := os.ReadFile(recording)
	if err != nil {
		return err
	}
	var recorded struct{ Commands [][]string }
	if err := json.Unmarshal(text, &recorded); err != nil {
		return err
	}
	w := rubyWorker{ledger: l, self: fmt.Sprintf("vm:%d:%s", os.Getpid(), strings.Join(queues, ",")), queues: queues}
	if err := w.divide(recorded.Commands); err != nil {
		return err
	}
	if w.c, err = redis.Dial("tcp", address); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	w.send(w.begin, "", "")
	for w.c.Err() == nil {
		select {
		case <-stop:
			w.send(w.end, "", "")
			return w.c.Err()
		default:
		}
		queue, job := w.look()
		if job == "" {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		w.send(w.do[:1], queue, job)
		if err := l.perform(job); err != nil {
			return err
		}
		w.send(w.do[1:], queue, job)
	}
	return w.c.Err()
}

// divide finds the parts of a worker's life in a recording, behind the two commands of the producer.
func (w *rubyWorker) divide(commands [][]string) error {
	var pauses, sets []int
	for i, c := range commands {
		switch {
		case c[0] == "GET" && c[1] == "resque:pause-all-workers":
			pauses = append(pauses, i)
		case c[0] == "SET" && c[1] == "resque:worker:"+recordedWorker:
			sets = append(sets, i)
		}
	}
	if len(pauses) != 2 || len(sets) != 1 {
		return fmt.Errorf("the recording has another form: %d looks for jobs, %d jobs", len(pauses), len(sets))
	}
	w.begin, w.take, w.do, w.end = commands[2:pauses[0]], commands[pauses[0]:pauses[0]+1], commands[sets[0]:pauses[1]], commands[pauses[1]+3:]
	return nil
}

// look asks whether it is to rest, and takes a job out of the first queue that has one.
func (w *rubyWorker) look() (queue, job string) {
	w.send(w.take, "", "")
	for _, queue := range w.queues {
		if job, err := redis.String(w.c.Do("LPOP", "resque:queue:"+queue)); err == nil {
			return queue, job
		}
	}
	return "", ""
}

// send sends commands of the recording.
func (w *rubyWorker) send(commands [][]string, queue, job string) {
	for _, c := range commands {
		var args []any
		for _, text := range c[1:] {
			text = strings.ReplaceAll(strings.ReplaceAll(text, recordedWorker, w.self), recordedJob, job)
			args = append(args, strings.Replace(text, `{"queue":"low"`, fmt.Sprintf(`{"queue":%q`, queue), 1))
		}
		_, _ = w.c.Do(c[0], args...)
	}
}

// perform does a job of any class once, of one that groups became that of each item. Which attempt it is no Ruby worker knows: 0.
func (l ledger) perform(text string) error {
	var job struct{ Args []any }
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	ids := texts(job.Args)
	if len(job.Args) > 1 {
		if id, ok := job.Args[0].(string); ok {
			ids = []string{id}
		}
	}
	for _, id := range ids {
		l.begin(id, 0)
	}
	time.Sleep(5 * time.Millisecond)
	for _, id := range ids {
		l.note('e', id)
	}
	return nil
}

// texts are the strings in a value of JSON.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, each := range v {
			all = append(all, texts(each)...)
		}
	}
	return all
}
