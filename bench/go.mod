module github.com/goworker/goworker/bench

go 1.25.0

require (
	github.com/benmanns/goworker v0.1.3
	github.com/gomodule/redigo v1.9.3
	github.com/goworker/goworker v0.0.0
)

require (
	github.com/cihub/seelog v0.0.0-20170130134532-f561c5e57575 // indirect
	github.com/garyburd/redigo v1.6.4 // indirect
	github.com/golang/glog v1.2.5 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/youtube/vitess v2.1.1+incompatible // indirect
	golang.org/x/net v0.47.0 // indirect
	vitess.io/vitess v3.0.0-rc.3.0.20181212200900-e2c5239f54d1+incompatible // indirect
)

replace github.com/goworker/goworker => ../
