module github.com/goworker/goworker/release

go 1.25.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/licensecheck v0.3.1
	golang.org/x/mod v0.31.0
)
