package guard

import "fmt"

// noIdentify is the page of a dashboard without a function that finds users.
const noIdentify = `This dashboard shows nothing until its program says who may look. An address alone is no proof: a proxy, a port forward and each user of this host come from 127.0.0.1 too.

Set User in the options. With a file of names and passwords:

	users, err := dashboard.BasicAuth("/etc/goworker/dashboard.users")
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/jobs/", dashboard.Handler(client, dashboard.Options{User: users}))

The command makes a line of the file, and asks for the password:

	goworker dashboard passwd alice >> /etc/goworker/dashboard.users

With the login of the program itself:

	User: func(r *http.Request) (dashboard.User, error) {
		name, err := loggedIn(r)
		if err != nil {
			return dashboard.User{}, err
		}
		return dashboard.User{Name: name, Role: dashboard.Operator}, nil
	},`

// unknownHost is the page of a request to a name that is not of the dashboard.
func unknownHost(host string) string {
	return fmt.Sprintf(`This request was sent to the name %q, which is not a name of this dashboard. IP addresses, localhost and names that end in .localhost always are.

If people open the dashboard by this name, add it to the options:

	dashboard.Options{Hosts: []string{"ops.example.com"}}

or to the command:

	goworker dashboard --host ops.example.com`, short(host))
}

const foreignPage = "A page of another site sent this request, and nothing was changed. If this site is yours, add its origin to TrustedOrigins in the options."

// rewrittenHost is the page of a change whose Origin is not its Host, from a browser that says nothing more. Over plain http to
// a name browsers do not. A proxy that sets its own Host looks the same as another site.
func rewrittenHost(host, origin string) string {
	return fmt.Sprintf(`A page of %q sent this request to the host %q, and nothing was changed.

If a proxy stands between, it replaced the Host. In nginx, let it keep the Host, beside proxy_pass:

	proxy_set_header Host $http_host;

Or use https, or add the origin to TrustedOrigins in the options:

	dashboard.Options{TrustedOrigins: []string{%q}}`, short(origin), short(host), short(origin))
}
