package main

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"os"
	"path/filepath"
)

// store is a folder of pictures. What goes from job to job is the path of a picture, and never the picture.
type store string

// The size of a picture that is fetched.
const width, height = 384, 256

// fetch makes picture number i, in place of a download: rings around a point, in a color of its own.
func (s store) fetch(i int) (string, error) {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	x0, y0 := float64(width)*(0.2+0.6*math.Abs(math.Sin(float64(i)))), float64(height)*(0.2+0.6*math.Abs(math.Cos(float64(i))))
	for y := range height {
		for x := range width {
			ring := 127 + 127*math.Sin(math.Hypot(float64(x)-x0, float64(y)-y0)/9)
			picture.Set(x, y, color.RGBA{R: uint8(ring), G: uint8(60 + 50*i), B: uint8(200 - 40*i), A: 255})
		}
	}
	fmt.Println("fetched picture", i)
	return s.save(picture, fmt.Sprintf("%d.png", i))
}

// shrink makes a picture as wide as that. Each new point is the mean of the points that it stands for.
func (s store) shrink(wide int, path string) (string, error) {
	large, err := load(path)
	if err != nil {
		return "", err
	}
	from := large.Bounds()
	small := image.NewRGBA(image.Rect(0, 0, wide, wide*from.Dy()/from.Dx()))
	to := small.Bounds()
	for y := range to.Dy() {
		for x := range to.Dx() {
			small.Set(x, y, mean(large, image.Rect(
				x*from.Dx()/to.Dx(), y*from.Dy()/to.Dy(), (x+1)*from.Dx()/to.Dx(), (y+1)*from.Dy()/to.Dy(),
			)))
		}
	}
	name := filepath.Base(path)
	return s.save(small, fmt.Sprintf("%s-%d.png", name[:len(name)-len(filepath.Ext(name))], wide))
}

func mean(of image.Image, in image.Rectangle) color.Color {
	var r, g, b, n uint32
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			red, green, blue, _ := of.At(x, y).RGBA()
			r, g, b, n = r+red>>8, g+green>>8, b+blue>>8, n+1
		}
	}
	n = max(n, 1)
	return color.RGBA{R: uint8(r / n), G: uint8(g / n), B: uint8(b / n), A: 255}
}

// strip puts pictures beside each other.
func (s store) strip(i int, paths []string) (string, error) {
	fmt.Println("strip", i, "has", len(paths), "sizes")
	return s.join(fmt.Sprintf("strip-%d.png", i), paths, image.Point{X: 1})
}

// sheet puts strips below each other, into a file of the user's.
func (s store) sheet(out string, strips []string) (string, error) {
	fmt.Println("the sheet has", len(strips), "strips")
	path, err := s.join("sheet.png", strips, image.Point{Y: 1})
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return out, os.WriteFile(out, text, 0o644)
}

// join draws pictures one after the other, to the right or down.
func (s store) join(name string, paths []string, step image.Point) (string, error) {
	var pictures []image.Image
	var size image.Point
	for _, path := range paths {
		picture, err := load(path)
		if err != nil {
			return "", err
		}
		pictures = append(pictures, picture)
		of := picture.Bounds().Size()
		size = image.Point{X: max(size.X, of.X, step.X*(size.X+of.X)), Y: max(size.Y, of.Y, step.Y*(size.Y+of.Y))}
	}
	sheet, at := image.NewRGBA(image.Rectangle{Max: size}), image.Point{}
	for _, picture := range pictures {
		draw.Draw(sheet, picture.Bounds().Add(at), picture, image.Point{}, draw.Src)
		at = at.Add(image.Point{X: step.X * picture.Bounds().Dx(), Y: step.Y * picture.Bounds().Dy()})
	}
	return s.save(sheet, name)
}

// save writes a picture below a name of its own and renames it, so that a job that runs twice leaves a whole file.
func (s store) save(picture image.Image, name string) (string, error) {
	file, err := os.CreateTemp(string(s), name)
	if err != nil {
		return "", err
	}
	err = png.Encode(file, picture)
	if closed := file.Close(); err == nil {
		err = closed
	}
	path := filepath.Join(string(s), name)
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	return path, err
}

func load(path string) (image.Image, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return png.Decode(file)
}
