// Package conn makes connections to Redis and keeps them: the URI and TLS of a server, errors as
// sentences, a pool of connections, and a connection that redials after it broke.
package conn
