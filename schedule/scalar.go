package schedule

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goworker/goworker/internal/pattern"
)

// The numbers of Ruby's Psych. It has kept to YAML 1.1, with differences of its
// own: 08 and 1e3 are texts there, 1,000 and 12:30 are numbers.
var (
	integer     = pattern.New(`^[-+]?(?:0b[01_,]+|0[0-7_,]+|0|[1-9](?:[,_]?[0-9])*|0x[0-9a-fA-F_,]+)$`)
	float       = pattern.New(`^[-+]?(?:[0-9][0-9_,]*)?\.[0-9]*(?:[eE][-+][0-9]+)?$`)
	sexagesimal = pattern.New(`^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9]){1,2}(\.[0-9_]*)?$`)
	quoted      = pattern.New(`^:(?:"(.*)"|'(.*)')`)
	unjoined    = strings.NewReplacer("_", "", ",", "")
)

// name is that of a pair. Other types become text, as in JSON's names.
func name(key *yaml.Node) string {
	if key.Kind == yaml.ScalarNode {
		switch value, err := scalar(key); v := value.(type) {
		case nil:
			if err == nil {
				return ""
			}
		case string:
			return v
		default:
			return fmt.Sprint(v)
		}
	}
	return key.Value
}

// scalar is a nil, a bool, a json.Number or a string, as Ruby reads them.
func scalar(n *yaml.Node) (any, error) {
	switch tag := n.Tag; {
	case n.Style&yaml.TaggedStyle == 0:
		if n.Style != 0 {
			return n.Value, nil
		}
	case tag == "!" || tag == "!!str" || tag == "!!binary" || strings.HasPrefix(tag, "!str") || strings.HasPrefix(tag, "!ruby/"):
		return n.Value, nil
	case tag == "!!float":
		value, err := plain(n.Value)
		if number, ok := value.(json.Number); ok && err == nil {
			f, err := number.Float64()
			return asFloat(f), err
		}
	}
	value, err := plain(n.Value)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", n.Line, err)
	}
	return value, nil
}

// plain reads a value without quotes. A time of day with a date stays a text, since
// in Ruby it depends on the time zone and the JSON library.
func plain(text string) (any, error) {
	switch strings.ToLower(text) {
	case "", "~", "null":
		return nil, nil
	case "yes", "true", "on":
		return true, nil
	case "no", "false", "off":
		return false, nil
	case ".inf", "+.inf", "-.inf", ".nan":
		return nil, fmt.Errorf("%s has no form in JSON", text)
	}
	if at, err := time.Parse("2006-1-2", text); err == nil {
		return at.Format(time.DateOnly), nil
	}
	if len(text) > 1 && text[0] == ':' { // a symbol
		if m := quoted.FindStringSubmatch(text); m != nil {
			return m[1] + m[2], nil
		}
		return text[1:], nil
	}
	joined := unjoined.Replace(text)
	switch {
	case sexagesimal.MatchString(text):
		return base60(joined), nil
	case float.MatchString(text):
		f, err := strconv.ParseFloat(joined, 64)
		if math.IsInf(f, 0) {
			return nil, fmt.Errorf("%s is too large for a number", text)
		}
		if err == nil {
			return asFloat(f), nil
		}
	case integer.MatchString(text):
		if i, ok := new(big.Int).SetString(joined, 0); ok {
			return json.Number(i.String()), nil
		}
	}
	return text, nil
}

// base60 counts the first part as hours even if there are only two parts, as Psych does. The
// sign is that of the first part only.
func base60(text string) json.Number {
	total, unit := 0.0, 3600.0
	for part := range strings.SplitSeq(text, ":") {
		f, _ := strconv.ParseFloat(part, 64)
		total += f * unit
		unit /= 60
	}
	if strings.Contains(text, ".") {
		return asFloat(total)
	}
	return json.Number(strconv.FormatFloat(total, 'f', 0, 64))
}

// asFloat writes a float as Ruby does: 3.0, 1.0e+16.
func asFloat(f float64) json.Number {
	form := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		form = 'e'
	}
	text := strconv.FormatFloat(f, form, -1, 64)
	if !strings.Contains(text, ".") {
		digits, exponent, scientific := strings.Cut(text, "e")
		if text = digits + ".0"; scientific {
			text += "e" + exponent
		}
	}
	return json.Number(text)
}
