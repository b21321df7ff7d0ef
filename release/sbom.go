package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/mod/modfile"
)

// bill returns the SBOM of a program, as CycloneDX 1.6: the modules that the program itself names, and Go's standard library.
// Its serial number comes from the program's bytes, and its time is the commit's.
func (r Release) bill(src *source, program, platform string, licenses map[string]license) ([]byte, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if info.Main.Version != r.Version || settings["vcs.revision"] != src.commit || settings["vcs.modified"] != "false" {
		return nil, fmt.Errorf("the program says it is %s of commit %s (modified: %s), and must be %s of %s", info.Main.Version,
			settings["vcs.revision"], settings["vcs.modified"], r.Version, src.commit)
	}
	hash := sha256.Sum256(data)
	system, processor, _ := strings.Cut(platform, "/")
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = serial(hash)
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: src.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "goworker", Type: cyclonedx.ComponentTypeApplication, Name: "goworker", Version: r.Version,
			PackageURL: purl(info.Main.Path, r.Version) + "?goarch=" + processor + "&goos=" + system,
			Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", hash)}},
			Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "MIT"}}},
			Properties: &[]cyclonedx.Property{{Name: "goworker:commit", Value: src.commit}, {Name: "goworker:go", Value: info.GoVersion}},
		},
	}
	components := []cyclonedx.Component{component("std", info.GoVersion, "", licenses)}
	refs := []string{components[0].BOMRef}
	for _, m := range info.Deps {
		sum, version := m.Sum, m.Version
		if m.Replace != nil {
			if !modfile.IsDirectoryPath(m.Replace.Path) || !ours(m.Path) {
				return nil, fmt.Errorf("%s is replaced by %s %s: a release replaces nothing but its own modules", m.Path, m.Replace.Path, m.Replace.Version)
			}
			sum, version = "", r.Version // it is the same commit's
		}
		c := component(m.Path, version, sum, licenses)
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(refs)
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "goworker", Dependencies: &refs}}
	var out bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

func component(path, version, sum string, licenses map[string]license) cyclonedx.Component {
	if path == "std" {
		version = strings.TrimPrefix(version, "go")
	}
	url := purl(path, version)
	c := cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url, Scope: cyclonedx.ScopeRequired}
	names := licenses[path].names
	if ours(path) {
		names = []string{"MIT"}
	}
	var choices cyclonedx.Licenses
	for _, name := range names {
		if strings.HasPrefix(name, "GooglePatent") {
			continue // a grant beside the license, which SPDX has no id for
		}
		choices = append(choices, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: name}})
	}
	if len(choices) > 0 {
		c.Licenses = &choices
	}
	if sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "goworker:go.sum", Value: sum}}
	}
	return c
}

// ours tells whether a module is of this repository.
func ours(path string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// serial makes a UUID of version 8 of a hash.
func serial(hash [sha256.Size]byte) string {
	b := hash[:16]
	b = slices.Clone(b)
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
