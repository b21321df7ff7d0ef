package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one of an archive: its content, or where that is.
type file struct {
	name       string
	path       string
	data       []byte
	executable bool
}

func (f file) content() ([]byte, error) {
	if f.path == "" {
		return f.data, nil
	}
	return os.ReadFile(f.path)
}

func (f file) mode() int64 {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// archive writes files into name.zip or name.tar.gz, below a folder of that name: in the order of their names, all with one time and no owner.
func archive(name string, zipped bool, files []file, at time.Time) error {
	ending, write := ".tar.gz", tarFiles
	if zipped {
		ending, write = ".zip", zipFiles
	}
	out, err := os.Create(name + ending)
	if err != nil {
		return err
	}
	defer out.Close()
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	if err := write(out, filepath.Base(name), files, at); err != nil {
		return err
	}
	return out.Close()
}

func tarFiles(out io.Writer, folder string, files []file, at time.Time) error {
	compressed := gzip.NewWriter(out) // its header has neither a name nor a time
	w := tar.NewWriter(compressed)
	for _, f := range files {
		data, err := f.content()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: path.Join(folder, f.name), Mode: f.mode(), Size: int64(len(data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func zipFiles(out io.Writer, folder string, files []file, at time.Time) error {
	w := zip.NewWriter(out)
	for _, f := range files {
		data, err := f.content()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(f.mode()))
		entry, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(data); err != nil {
			return err
		}
	}
	return w.Close()
}
