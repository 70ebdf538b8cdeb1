package canonical

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVectorsCanonical(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "vectors", "canonical.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name   string
			Input  string
			Expect *string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) == 0 {
		t.Fatal(len(file.Cases), err)
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := JSON([]byte(c.Input))
			if c.Expect == nil {
				if err == nil {
					t.Fatalf("%s was not refused", got)
				}
				return
			}
			if err != nil || string(got) != *c.Expect {
				t.Fatalf("\n got %s %v\nwant %s", got, err, *c.Expect)
			}
			if again, err := JSON(got); err != nil || !bytes.Equal(again, got) {
				t.Fatalf("the canonical text changes again: %s %v", again, err)
			}
		})
	}
}

func TestWhatReadersWouldUnderstandDifferentlyIsRefused(t *testing.T) {
	for _, text := range []string{`{"a":1,"a":2}`, "\"\xff\"", `"\ud83d\u0041"`, `"\ude00"`, strings.Repeat("[", 2000), `{"a":}`, `{7:1}`, `[1,]`} {
		if got, err := JSON([]byte(text)); err == nil {
			t.Errorf("%.20q became %.20q", text, got)
		}
	}
	if got, err := JSON([]byte(`"\\ud83d \ud83d\ude00"`)); err != nil || string(got) != `"\\ud83d 😀"` {
		t.Errorf("%s %v", got, err)
	}
}
