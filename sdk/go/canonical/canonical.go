// Package canonical writes JSON in one way only (RFC 8785), so that equal values have equal bytes: for digests, and for idempotency keys
// that are made of what a job is about.
package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const depthMax = 1000 // of lists and objects in each other

// JSON returns the canonical bytes of a JSON text. It refuses what no two readers would understand alike: numbers beyond a double, halves
// of surrogate pairs, and objects that name a member twice.
func JSON(text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the text is not UTF-8")
	}
	if err := checkSurrogates(text); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var to bytes.Buffer
	if err := write(&to, decoder, depthMax); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	return to.Bytes(), nil
}

// checkSurrogates looks at \u escapes, of which encoding/json would mend the halves silently.
func checkSurrogates(text []byte) error {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit, isEscape := escape(text, i)
		switch {
		case !isEscape:
			i++ // the character behind the backslash
		case utf16.IsSurrogate(unit):
			second, _ := escape(text, i+6)
			if utf16.DecodeRune(unit, second) == utf8.RuneError {
				return fmt.Errorf("half of a surrogate pair at byte %d", i)
			}
			i += 11
		default:
			i += 5
		}
	}
	return nil
}

// escape reads \uXXXX at this place.
func escape(text []byte, at int) (rune, bool) {
	if at+6 > len(text) || text[at] != '\\' || text[at+1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[at+2:at+6]), 16, 16)
	return rune(unit), err == nil
}

func write(to *bytes.Buffer, from *json.Decoder, depth int) error {
	token, err := from.Token()
	if err != nil {
		return err
	}
	switch value := token.(type) {
	case json.Delim:
		if depth == 0 {
			return fmt.Errorf("the text is nested deeper than %d levels", depthMax)
		}
		if value == '[' {
			return writeList(to, from, depth-1)
		}
		return writeObject(to, from, depth-1)
	case string:
		writeString(to, value)
		return nil
	case json.Number:
		return writeNumber(to, value)
	default: // true, false and nil
		text, err := json.Marshal(value)
		to.Write(text)
		return err
	}
}

func writeList(to *bytes.Buffer, from *json.Decoder, depth int) error {
	to.WriteByte('[')
	for first := true; from.More(); first = false {
		if !first {
			to.WriteByte(',')
		}
		if err := write(to, from, depth); err != nil {
			return err
		}
	}
	to.WriteByte(']')
	_, err := from.Token()
	return err
}

func writeObject(to *bytes.Buffer, from *json.Decoder, depth int) error {
	type member struct {
		name  string
		units []uint16
		value bytes.Buffer
	}
	var members []*member
	for from.More() {
		token, err := from.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return errors.New("the name of a member is not text")
		}
		m := &member{name: name, units: utf16.Encode([]rune(name))}
		if err := write(&m.value, from, depth); err != nil {
			return err
		}
		members = append(members, m)
	}
	if _, err := from.Token(); err != nil {
		return err
	}
	slices.SortFunc(members, func(a, b *member) int { return slices.Compare(a.units, b.units) })
	to.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			if members[i-1].name == m.name {
				return fmt.Errorf("an object names %q twice", m.name)
			}
			to.WriteByte(',')
		}
		writeString(to, m.name)
		to.WriteByte(':')
		to.Write(m.value.Bytes())
	}
	to.WriteByte('}')
	return nil
}

// writeNumber writes a number as ECMAScript does, and as encoding/json does but for -0.
func writeNumber(to *bytes.Buffer, number json.Number) error {
	value, err := number.Float64()
	if err != nil || math.IsInf(value, 0) {
		return fmt.Errorf("the number %s is beyond a double", number)
	}
	if value == 0 {
		value = math.Abs(value) // not -0
	}
	text, err := json.Marshal(value)
	to.Write(text)
	return err
}

var shortEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\b", `\b`, "\t", `\t`, "\n", `\n`, "\f", `\f`, "\r", `\r`)

func writeString(to *bytes.Buffer, text string) {
	to.WriteByte('"')
	for _, r := range shortEscapes.Replace(text) {
		if r < ' ' {
			fmt.Fprintf(to, `\u%04x`, r)
		} else {
			to.WriteRune(r)
		}
	}
	to.WriteByte('"')
}
