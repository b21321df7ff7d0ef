// The pictures are a module of their own, so that no program that imports goworker downloads them.
module github.com/goworker/goworker/docs/pictures

go 1.25
