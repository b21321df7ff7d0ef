package metrics

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// API is an *httpapi.API.
type API interface {
	WriteMetrics(ctx context.Context, w io.Writer) error
}

// HTTP gathers the metrics of an HTTP API that the program serves, goworker_http_…, for Also. The API's own handler for operators shows
// them too, as text.
func HTTP(api API) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
		defer cancel()
		var text bytes.Buffer
		if err := api.WriteMetrics(ctx, &text); err != nil {
			return nil, err
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		all, err := parser.TextToMetricFamilies(&text)
		families := make([]*dto.MetricFamily, 0, len(all))
		for _, name := range slices.Sorted(maps.Keys(all)) {
			families = append(families, all[name])
		}
		return families, err
	})
}
