// Package workflow compiles trees of nodes to plans: numbers for the steps, joins that count them, scopes of their error
// handlers, and templates of the jobs that wait. It needs no Redis.
//
// # Numbers
//
// Each step, branch and handler has a letter, and its number is the letter's place: first what is sent first, then what each
// join sends, in a row, then branches, then handlers. Joins and scopes have numbers of their own. A join has a higher number
// than the one it reports to, a scope than the one around it. Scope 0 is the workflow's own: a workflow without an error handler
// of its own has none, or, if it is open, one without a handler.
//
// In sentences steps are counted from 1, in the order in which the program wrote them: nodes, then OnError, then OnComplete.
//
// # Fields
//
// The plan's fields have the forms that scripts/parts/workflow.lua of internal/resque/workflows says:
//
//	j<n>      left bad stopped kind first count up letter borne over
//	p<n>      up handler borne
//	s<n>      letter mode of delay ttl cut last record
//	k<n>      secret within place
//	n:<name>  the number of the step, and behind a blank the number under which its result is kept, if that is another
//	into      the place that a plain member of the open join has: see ParseInto
//	list      of pieces that are added, if results are kept: items, which come behind those that are there
//	result    'v <of>'
//	rest, cancels  1
//
// # Values
//
// The part of of a template, and of the field result, says which results are given to what follows. This is its grammar:
//
//	of     = item { "," item } .
//	item   = number                     the result of this number
//	       | number "+" count           the results of so many numbers, from this one on
//	       | "*"                        in a list: the items of the field list
//	       | [ number ] [ "c" ] "[" [ of ] "]" .
//
// Items beside each other are arguments beside each other. An item with brackets is one argument: the list of its items. With c
// each element of the list is {"result":…} or {"error":…}. With a number the list stands for a branch: if a failure is kept
// under that number, the failure counts in place of the whole list. Lists nest to any depth. Number and count are decimal, and
// a count is at least 2.
//
// A step without a result adds nothing to arguments, and null to a list. Several results of one step are several arguments, and one
// list in a list. A failure is null, except in c[…]. A list in c[…] is {"result":[…]}.
//
// The modes are n for no value, with the of "-"; e for the failure that called a handler, likewise; v for values; and i for
// values that are never given as a reference.
//
// # Places of values
//
// cut and last count bytes of the record. Values go in behind byte cut. A comma stands before them unless that byte is the
// bracket that begins the list. Then a comma stands behind them, unless the next byte is the bracket that ends it: the last
// argument of an External step is its token, and values go in before it. expires_at goes in behind byte last: before the id.
package workflow
