package conn

import (
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// pipeRoom is how many bytes a Pipe writes at a time. Larger pieces are hardly faster, and Redis reads the first ones while the rest is copied.
const pipeRoom = 64 << 10

// pipeRooms has the memory of pipes that are over.
var pipeRooms = sync.Pool{New: func() any { return new([pipeRoom]byte) }}

// Pipe sends commands with many values and then reads all answers, in one round trip. To a connection that this package has dialed it writes the
// values as bytes: redigo takes each as an interface, which is an allocation, and writes 4 KiB at a time. On any other connection redigo's methods
// send them. It is for one goroutine, and the connection must not owe an answer.
type Pipe struct {
	conn   redis.Conn
	lent   *borrowed    // conn; nil: no pool has lent it
	direct *watchedConn // the connection below; nil: redigo sends

	room     *[pipeRoom]byte
	buf      []byte // what is not written yet, in room
	timed    bool   // the command has its limit
	commands int
	err      error

	name string // of the command that redigo is to send, with the arguments that are there
	args []any
	left int // values that the command lacks
}

// NewPipe returns a Pipe to a connection.
func NewPipe(c redis.Conn) *Pipe {
	p := &Pipe{conn: c}
	p.lent, _ = c.(*borrowed)
	if p.lent != nil {
		c = p.lent.conn
	}
	if p.direct, _ = c.(*watchedConn); p.direct != nil {
		p.room = pipeRooms.Get().(*[pipeRoom]byte)
		p.buf = p.room[:0]
	}
	return p
}

// Command begins a command. So many values follow.
func (p *Pipe) Command(name string, values int) {
	p.commands++
	if p.direct == nil {
		p.name, p.left, p.args = name, values, make([]any, 0, values)
		p.complete()
		return
	}
	if p.lent != nil && p.err == nil {
		p.err = p.lent.before(name)
	}
	p.timed = false
	p.number('*', 1+values)
	p.Text(name)
}

// Bytes adds a value, which is read until Do has returned.
func (p *Pipe) Bytes(value []byte) {
	if p.direct == nil {
		p.add(value)
		return
	}
	p.number('$', len(value))
	large := len(value) > pipeRoom/2
	if large || len(value)+len("\r\n") > cap(p.buf)-len(p.buf) {
		p.flush()
	}
	if large {
		p.write(value)
	} else {
		p.buf = append(p.buf, value...)
	}
	p.buf = append(p.buf, "\r\n"...)
}

// Text adds a value.
func (p *Pipe) Text(value string) {
	if p.direct == nil {
		p.add(value)
		return
	}
	p.number('$', len(value))
	for len(value) > 0 {
		if len(p.buf) == cap(p.buf) {
			p.flush()
		}
		n := min(len(value), cap(p.buf)-len(p.buf))
		p.buf, value = append(p.buf, value[:n]...), value[n:]
	}
	if cap(p.buf)-len(p.buf) < len("\r\n") {
		p.flush()
	}
	p.buf = append(p.buf, "\r\n"...)
}

// Int adds a value.
func (p *Pipe) Int(value int) {
	if p.direct == nil {
		p.add(value)
		return
	}
	p.Text(strconv.Itoa(value))
}

// number writes a length of the protocol.
func (p *Pipe) number(kind byte, n int) {
	const most = len("$-9223372036854775808\r\n")
	if cap(p.buf)-len(p.buf) < most {
		p.flush()
	}
	p.buf = append(strconv.AppendInt(append(p.buf, kind), int64(n), 10), "\r\n"...)
}

// flush writes what is there, and makes room.
func (p *Pipe) flush() {
	p.write(p.buf)
	p.buf = p.buf[:0]
}

func (p *Pipe) write(b []byte) {
	if p.err != nil || len(b) == 0 {
		return
	}
	w := p.direct
	if !p.timed {
		p.timed = true
		p.err = w.net.SetWriteDeadline(time.Now().Add(w.writeTimeout))
	}
	if p.err == nil {
		_, p.err = w.net.Write(b)
	}
	if p.err != nil {
		_ = w.Close() // half a command was written
	}
}

// add adds a value for redigo.
func (p *Pipe) add(value any) {
	p.args = append(p.args, value)
	p.left--
	p.complete()
}

// complete has redigo send a command that has all its values.
func (p *Pipe) complete() {
	if p.left == 0 && p.err == nil {
		p.err = p.conn.Send(p.name, p.args...)
	}
}

// Commands returns how many commands there are.
func (p *Pipe) Commands() int { return p.commands }

// Do sends what was not sent yet and returns the answers, a redis.Error for a command that was refused. With an error the connection is broken,
// and it is unknown what Redis did. The Pipe is over then.
func (p *Pipe) Do() (answers []any, err error) {
	if p.direct == nil {
		if p.err != nil {
			return nil, p.err
		}
		all, err := p.conn.Do("")
		answers, _ = all.([]any)
		return answers, err
	}
	p.flush()
	pipeRooms.Put(p.room)
	p.room, p.buf = nil, nil
	if p.err == nil {
		answers = make([]any, 0, p.commands)
	}
	for len(answers) < p.commands && p.err == nil {
		answer, err := p.direct.Receive()
		if refused, no := err.(redis.Error); no {
			answer, err = refused, nil
			if p.lent != nil {
				_, _ = p.lent.check(nil, refused)
			}
		}
		answers, p.err = append(answers, answer), err
	}
	if p.err != nil {
		if p.lent != nil {
			_, p.err = p.lent.check(nil, p.err)
		}
		return nil, p.err
	}
	return answers, nil
}
