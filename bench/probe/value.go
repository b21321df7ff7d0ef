package probe

import "fmt"

// Classes whose first argument is not filler. Their second is the job's number.
const (
	// Item is what is gathered into groups, by its first argument: one of Keys by turns. That of OneKey is always the same.
	Item   = "Item"
	OneKey = "OneKey"
	// Small has a short text, Thing a Record, and Numbers a list of integers.
	Small   = "Small"
	Thing   = "Thing"
	Numbers = "Numbers"
)

// Gathers reports whether jobs of the class are gathered.
func Gathers(class string) bool { return class == Item || class == OneKey }

// Keys is how many groups items are gathered into, by turns.
const Keys = 100

// GroupOf is how many items a group has.
const GroupOf = 100

// numbers is how many integers a list has.
const numbers = 1000

// Record is what a typical job is about.
type Record struct {
	ID       int64             `json:"id"`
	Tenant   string            `json:"tenant"`
	Kind     string            `json:"kind"`
	Amount   float64           `json:"amount"`
	Paid     bool              `json:"paid"`
	Tags     []string          `json:"tags"`
	Address  map[string]string `json:"address"`
	Position [2]float64        `json:"position"`
}

// Value is the first argument of job number i of such a class, nil for other classes.
func Value(class string, i int) any {
	switch class {
	case Item:
		return fmt.Sprintf("index-%02d", i%Keys)
	case OneKey:
		return "index-00"
	case Small:
		return "mail-42"
	case Thing:
		return Record{
			ID: 1_700_000_000_000 + int64(i), Tenant: "northwind", Kind: "invoice.sent", Amount: 1249.95, Paid: true,
			Tags:     []string{"eu", "monthly", "reminder"},
			Address:  map[string]string{"street": "Harbour Road 7", "city": "Rotterdam", "postcode": "3011 AA"},
			Position: [2]float64{51.9225, 4.47917},
		}
	case Numbers:
		list := make([]int64, numbers)
		for n := range list {
			list[n] = int64(n) * 7919 % 100_000
		}
		return list
	}
	return nil
}
