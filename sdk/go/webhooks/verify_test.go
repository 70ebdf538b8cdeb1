package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestVectorsSignatures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "vectors", "signatures.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tolerance int64 `json:"tolerance_s"`
		Cases     []struct {
			Name    string
			Scheme  string
			Secret  Secret
			JWKS    json.RawMessage
			Method  string
			URL     string
			Headers map[string]string
			Body    string
			Now     int64
			Expect  string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 || file.Tolerance != int64(Tolerance.Seconds()) {
		t.Fatalf("%d cases, a tolerance of %d s", len(file.Cases), file.Tolerance)
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			header := http.Header{}
			for name, value := range c.Headers {
				header.Set(name, value)
			}
			var by Verifier = c.Secret
			if c.Scheme == "rfc9421" {
				if by, err = ReadKeys(c.JWKS); err != nil {
					t.Fatal(err)
				}
			}
			err := Verify(Delivery{Body: []byte(c.Body), Header: header, Method: c.Method, URL: c.URL, Now: time.Unix(c.Now, 0)}, by)
			if c.Expect == "ok" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, kind := range []error{
				ErrMissingHeader, ErrBadDigest, ErrNotCovered, ErrBadTimestamp, ErrExpired, ErrBadAlgorithm, ErrUnknownKey, ErrBadSignature,
			} {
				if got, want := errors.Is(err, kind), kind.Error() == c.Expect; got != want {
					t.Fatalf("got %v, want %s", err, c.Expect)
				}
			}
		})
	}
}

func TestAHandlerGetsOnlyWhatIsSigned(t *testing.T) {
	secret := Secret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	var got []Event
	fail := false
	handler := Handler(secret, "", func(_ context.Context, event Event) error {
		got = append(got, event)
		if fail {
			return errors.New("no room")
		}
		return nil
	})
	send := func(body string, signed bool) int {
		timestamp := strconv.FormatInt(time.Now().Unix(), 10)
		request := httptest.NewRequest("POST", "/hook", bytes.NewReader([]byte(body)))
		request.Header.Set("Webhook-Id", "d-1")
		request.Header.Set("Webhook-Timestamp", timestamp)
		request.Header.Set("X-Forgerun-Event", "job_failed")
		if signed {
			request.Header.Set("Webhook-Signature", "v1,"+secret.sign("d-1", timestamp, []byte(body)))
		} else {
			request.Header.Set("Webhook-Signature", "v1,AAAA")
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer.Code
	}
	if code := send(`{"a":1}`, true); code != 204 {
		t.Fatal(code)
	}
	if len(got) != 1 || got[0].ID != "d-1" || got[0].Name != "job_failed" || string(got[0].Data) != `{"a":1}` {
		t.Fatalf("%+v", got)
	}
	if code := send(`{"a":1}`, false); code != 401 || len(got) != 1 {
		t.Fatal(code, got)
	}
	if code := send(string(make([]byte, bodyBytesMax+1)), true); code != 413 {
		t.Fatal(code)
	}
	fail = true
	if code := send(`{}`, true); code != 500 {
		t.Fatal(code)
	}
}
