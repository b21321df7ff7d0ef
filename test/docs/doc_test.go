// Package docs runs what the README and the pages of docs show.
//
// Each fenced block is run or checked by its language, in the order of its page, on a redis-server of the
// page's own. A block whose language has no rule here fails. HTML comments before a block give it what the
// reader does not have to see; page_test.go lists them.
//
//   - go: a program, or a fragment, which is compiled inside a function. It is run where a directive says so.
//     Imports of a fragment come from the names that it uses.
//   - sh: run by bash, line by line, in the page's directory. redis-cli speaks to the page's server. Commands
//     that need what is not here, such as kubectl, are only parsed.
//   - js, ruby, php, python: run, with the page's server at localhost:6379.
//   - yaml, ini, dockerfile, procfile, json, acl, diff: parsed strictly, see formats_test.go.
//   - golang: code of another library, which has to be Go as gofmt writes it.
//   - text with the directive output: compared with what the block before it printed.
//   - log: each line is one that the code may write.
package docs
