package forgerun

import (
	"encoding/json"
	"testing"
)

func TestElementsAreCountedWhateverTheyContain(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `[]`: 0, " [ ] ": 0, `[1]`: 1, ` [ "a,b" ] `: 1, `["\",\\"]`: 1, `[[1,2]]`: 1, `[{"a":[1,2],"b":"]"}]`: 1, `[null]`: 1,
		`[1,2]`: 2, `["]",2]`: 2, `[{"a":1},[]]`: 2, `{"a":1}`: 2, `7`: 2,
	} {
		n, inner := elements(json.RawMessage(text))
		if n != want {
			t.Errorf("%s has %d elements, not %d", text, n, want)
		}
		if n == 1 && !json.Valid(inner) {
			t.Errorf("%s: %s is no JSON", text, inner)
		}
	}
}

func FuzzElements(f *testing.F) {
	for _, text := range []string{`[]`, `["\\",{"a":[1,"]"]}]`, `[1 , 2]`, `{"a":[]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		want := 2
		var list []json.RawMessage
		if text[0] != 'n' && json.Unmarshal(text, &list) == nil && list != nil {
			want = min(len(list), 2)
		}
		n, inner := elements(text)
		if n != want {
			t.Fatalf("%s has %d elements, not %d", text, n, want)
		}
		if n == 1 && !json.Valid(inner) {
			t.Fatalf("%s: %s is no JSON", text, inner)
		}
	})
}
