package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
)

// append appends a job as encoding/json writes it.
func (j *v1Job) append(dst []byte) []byte {
	dst = slices.Grow(dst, 256+2*len(j.Data))
	dst = append(dst, `{"attributes":`...)
	if len(j.Attributes) == 0 && j.Attributes == nil {
		dst = append(dst, "null"...)
	} else {
		text, _ := json.Marshal(j.Attributes) // texts have a form in JSON
		dst = append(dst, text...)
	}
	dst = append(dst, `,"data":`...)
	if j.Data == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(base64.StdEncoding.AppendEncode(append(dst, '"'), j.Data), '"')
	}
	dst = strconv.AppendInt(append(dst, `,"elapsed_ms":`...), j.ElapsedMS, 10)
	dst = appendV1Text(append(dst, `,"job_id":`...), j.ID)
	if j.Message != "" {
		dst = appendV1Text(append(dst, `,"msg":`...), j.Message)
	}
	dst = appendV1Text(append(dst, `,"namespace":`...), j.Namespace)
	dst = appendV1Text(append(dst, `,"queue":`...), j.Queue)
	dst = strconv.AppendInt(append(dst, `,"remain_tries":`...), int64(j.RemainTries), 10)
	return append(strconv.AppendInt(append(dst, `,"ttl":`...), j.TTL, 10), '}')
}

// appendV1Text appends a text as encoding/json writes it.
func appendV1Text(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text) // any text has a form in JSON
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}
