package goworker

import (
	"reflect"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/recurring"
)

// The scheduler's form of a Recurring has all its fields.
func TestRecurringKeepsItsFields(t *testing.T) {
	t.Parallel()
	var r Recurring
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), i, i))
		case reflect.Pointer:
			f.Set(reflect.ValueOf(time.FixedZone("x", i)))
		default:
			t.Fatalf("a field of kind %v", f.Kind())
		}
	}
	if back := publicRecurring(r.internal()); !reflect.DeepEqual(back, r) {
		t.Errorf("%+v became %+v", r, back)
	}
	if n := reflect.TypeFor[recurring.Recurring]().NumField(); n != v.NumField() {
		t.Errorf("%d fields became %d", v.NumField(), n)
	}
}
