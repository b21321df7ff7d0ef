package checks

import (
	"strings"

	"github.com/goworker/goworker/internal/resque"
)

// shapeChecks are about the shape of the namespace and of its keys.
var shapeChecks = []*Check{{
	Number: 21, Name: "payload-limit", Severity: Warning, Uses: Doctor, Title: "how large a value Redis takes",
	Bound:    Bound{1 << 20, "bytes"},
	Sentence: "Redis takes values of at most {takes}, and jobs may have {payload} (-max-payload): it closes the connection of a worker that hands in a larger one",
	Remedy:   "set proto-max-bulk-len to at least {wanted}, here and in the configuration of Redis, or lower -max-payload",
	Command:  `redis-cli -u "$REDIS_URL" CONFIG SET proto-max-bulk-len {bytes}`,
	look: func(l *look) error {
		takes, err := numberOf(l, "proto-max-bulk-len")
		wanted := int64(l.settings.MaxPayload) + int64(l.check.Bound.Value)
		if err == nil && takes < wanted {
			l.find(values{"takes": size(takes), "payload": size(l.settings.MaxPayload), "wanted": size(wanted), "bytes": wanted})
		}
		return err
	},
}, {
	Number: 22, Name: "cluster-braces", Severity: Error, Uses: Doctor, Title: "the namespace in a Cluster",
	Sentence: "this Redis is a node of a Cluster, and the namespace {namespace} has no part in braces: its keys lie on several nodes, and no script can use them together",
	Remedy:   "use a namespace such as {braces}, for the workers and the producers of all languages",
	look: func(l *look) error {
		info, err := info(l)
		ns := l.store.Namespace()
		if err == nil && info.Text("cluster_enabled") == "1" && !braced(ns) {
			l.find(values{"namespace": ns, "braces": "{" + strings.TrimSuffix(ns, ":") + "}:"})
		}
		return err
	},
}, {
	Number: 23, Name: "key-type", Severity: Error, Uses: Doctor, Title: "the types of keys",
	Sentence: "the key {key} is a {is}, where Resque has a {want}: every program that uses it gets an error",
	Remedy:   "see what it holds, and rename or remove it",
	Command:  `redis-cli -u "$REDIS_URL" RENAMENX {key} {aside}`,
	look:     types,
}}

// braced reports whether a Cluster puts all keys of a namespace on one node.
func braced(namespace string) bool {
	_, rest, open := strings.Cut(namespace, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return open && closed && tag != ""
}

// mostTyped is how many keys of a kind are asked for their type.
const mostTyped = 10_000

// types finds the keys of another type: the single ones, and those that the walk has seen.
func types(l *look) error {
	wrong, err := l.store.WrongTypes(l.conn)
	if err != nil {
		return err
	}
	for kind := resque.QueueKey; kind <= resque.WorkerKey; kind++ {
		names, err := keys(l, kind)
		if err != nil {
			return err
		}
		l.saw(min(len(names), mostTyped), len(names))
		more, err := l.store.WrongTypesOf(l.conn, kind, names[:min(len(names), mostTyped)])
		if err != nil {
			return err
		}
		wrong = append(wrong, more...)
	}
	for _, k := range wrong {
		l.find(values{"key": k.Key, "is": words(k.Is), "want": words(k.Want), "aside": k.Key + ":wrong-type"})
	}
	return nil
}
