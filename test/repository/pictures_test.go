package repository

import (
	"os"
	"path/filepath"
	"testing"
)

// mostPictures is what all pictures of the docs may weigh.
const mostPictures = 1_500_000

// The pictures of the docs are few bytes, and in a module of their own: programs that import goworker download none of them.
func TestPictures(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "pictures")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	module := false
	for _, entry := range entries {
		switch filepath.Ext(entry.Name()) {
		case ".mod":
			module = true
		case ".webp":
			info, err := entry.Info()
			if err != nil {
				t.Fatal(err)
			}
			sum += info.Size()
		default:
			t.Errorf("docs/pictures/%s is no picture; pictures are lossless WebP", entry.Name())
		}
	}
	if !module {
		t.Error("docs/pictures has no go.mod")
	}
	if sum > mostPictures {
		t.Errorf("the pictures have %d bytes, and %d are the most", sum, mostPictures)
	}
}
