// Package webhooks verifies the webhooks that a ForgeRun server sends.
//
// Each delivery is signed twice: by the secret of the webhook (Standard Webhooks) and by a key of the server (RFC 9421, Ed25519). Either
// will do.
package webhooks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Tolerance is how far the time of a signature may be from the present.
const Tolerance = 5 * time.Minute

// Reasons why a signature does not hold. Verify wraps one of them.
var (
	ErrMissingHeader = errors.New("missing_header")
	ErrBadDigest     = errors.New("bad_digest")
	ErrNotCovered    = errors.New("not_covered")
	ErrBadTimestamp  = errors.New("bad_timestamp")
	ErrExpired       = errors.New("expired")
	ErrBadAlgorithm  = errors.New("bad_algorithm")
	ErrUnknownKey    = errors.New("unknown_key") // fetch the key set again: keys are changed from time to time
	ErrBadSignature  = errors.New("bad_signature")
)

// Delivery is a webhook as it arrived.
type Delivery struct {
	Body   []byte // as it came, before anything parses it
	Header http.Header
	Method string    // POST if empty; only Keys needs it
	URL    string    // the one that is registered, as the server shows it; only Keys needs it
	Now    time.Time // the present if zero
}

// Verifier checks a delivery: a Secret, or Keys.
type Verifier interface {
	verify(d *Delivery) error
}

// Verify returns nil if the signature holds.
func Verify(d Delivery, by Verifier) error {
	if d.Now.IsZero() {
		d.Now = time.Now()
	}
	if d.Method == "" {
		d.Method = http.MethodPost
	}
	return by.verify(&d)
}

func reason(err error, format string, values ...any) error {
	return fmt.Errorf("%w: %s", err, fmt.Sprintf(format, values...))
}

// checkTime compares the time of a signature with the present.
func (d *Delivery) checkTime(seconds int64) error {
	if away := d.Now.Unix() - seconds; away > int64(Tolerance.Seconds()) || -away > int64(Tolerance.Seconds()) {
		return reason(ErrExpired, "the signature was made %d s before the present; are the clocks right?", away)
	}
	return nil
}

// Secret is the secret of a webhook, with or without whsec_ in front.
type Secret string

func (s Secret) verify(d *Delivery) error {
	var values [3]string
	for i, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		if values[i] = d.Header.Get(name); values[i] == "" {
			return reason(ErrMissingHeader, "%s", name)
		}
	}
	id, timestamp, signatures := values[0], values[1], values[2]
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return reason(ErrBadTimestamp, "Webhook-Timestamp is %q", timestamp)
	}
	if err := d.checkTime(seconds); err != nil {
		return err
	}
	expected := "v1," + s.sign(id, timestamp, d.Body)
	for _, signature := range strings.Fields(signatures) {
		if subtle.ConstantTimeCompare([]byte(signature), []byte(expected)) == 1 {
			return nil
		}
	}
	return reason(ErrBadSignature, "no signature fits: another secret, or a body that was changed")
}

func (s Secret) sign(id, timestamp string, body []byte) string {
	text := strings.TrimPrefix(string(s), "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		key = []byte(text)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Keys is the key set of a server: the JSON of /.well-known/forgerun/webhook-keys.
type Keys map[string]ed25519.PublicKey

// ReadKeys reads a key set. Keys of other kinds are skipped.
func ReadKeys(text []byte) (Keys, error) {
	var set struct {
		Keys []struct {
			Kind  string `json:"kty"`
			Curve string `json:"crv"`
			ID    string `json:"kid"`
			X     string `json:"x"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("the key set: %w", err)
	}
	keys := Keys{}
	for _, key := range set.Keys {
		x, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(key.X, "="))
		if key.Kind == "OKP" && key.Curve == "Ed25519" && err == nil && len(x) == ed25519.PublicKeySize {
			keys[key.ID] = x
		}
	}
	return keys, nil
}

// mustCover are the components that every signature must cover.
var mustCover = []string{"@method", "@target-uri", "content-type", "content-digest"}

func (k Keys) verify(d *Delivery) error {
	for _, name := range []string{"Content-Digest", "Signature-Input", "Signature"} {
		if d.Header.Get(name) == "" {
			return reason(ErrMissingHeader, "%s", name)
		}
	}
	input, signature, err := d.signature()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(d.Body)
	digest, ok := member(d.Header.Get("Content-Digest"), "sha-256")
	if !ok || digest != ":"+base64.StdEncoding.EncodeToString(sum[:])+":" {
		return reason(ErrBadDigest, "the body is not the one that was signed")
	}
	for _, name := range mustCover {
		if !input.covers(name) {
			return reason(ErrNotCovered, "%s", name)
		}
	}
	created, err := strconv.ParseInt(input.parameters["created"], 10, 64)
	if err != nil {
		return reason(ErrBadTimestamp, "the signature has no `created`")
	}
	if err := d.checkTime(created); err != nil {
		return err
	}
	if text, ok := input.parameters["expires"]; ok {
		if expires, err := strconv.ParseInt(text, 10, 64); err != nil || d.Now.Unix() > expires {
			return reason(ErrExpired, "the signature has expired")
		}
	}
	if algorithm, ok := input.parameters["alg"]; ok && algorithm != "ed25519" {
		return reason(ErrBadAlgorithm, "%s", algorithm)
	}
	key, ok := k[input.parameters["keyid"]]
	if !ok {
		return reason(ErrUnknownKey, "%q", input.parameters["keyid"])
	}
	base, err := d.base(input)
	if err != nil {
		return err
	}
	if !ed25519.Verify(key, base, signature) {
		return reason(ErrBadSignature, "another key, or a URL or header that was changed on the way")
	}
	return nil
}

// signatureInput is what a signature covers and how it was made.
type signatureInput struct {
	text       string
	components []string
	parameters map[string]string
}

func (i *signatureInput) covers(name string) bool {
	for _, component := range i.components {
		if component == name {
			return true
		}
	}
	return false
}

// signature returns the first signature that has an input with the same label.
func (d *Delivery) signature() (*signatureInput, []byte, error) {
	inputs := strings.Join(d.Header.Values("Signature-Input"), ", ")
	signatures := strings.Join(d.Header.Values("Signature"), ", ")
	for _, part := range splitOutside(inputs, ',') {
		label, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		value, ok := member(signatures, label)
		if !ok {
			continue
		}
		input, err := readInput(text)
		if err != nil {
			return nil, nil, err
		}
		signature, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
		if err != nil {
			return nil, nil, reason(ErrBadSignature, "it is not base64")
		}
		return input, signature, nil
	}
	return nil, nil, reason(ErrMissingHeader, "Signature and Signature-Input share no label")
}

// readInput reads ("a" "b");created=1;keyid="k".
func readInput(text string) (*signatureInput, error) {
	list, rest, ok := strings.Cut(text, ")")
	if !ok || !strings.HasPrefix(list, "(") {
		return nil, reason(ErrMissingHeader, "Signature-Input is malformed")
	}
	input := &signatureInput{text: text, parameters: map[string]string{}}
	for _, component := range strings.Fields(list[1:]) {
		input.components = append(input.components, strings.Trim(component, `"`))
	}
	for _, parameter := range splitOutside(rest, ';') {
		if name, value, ok := strings.Cut(strings.TrimSpace(parameter), "="); ok {
			input.parameters[name] = strings.Trim(value, `"`)
		}
	}
	return input, nil
}

// member returns the value of a member of a dictionary.
func member(dictionary, name string) (string, bool) {
	for _, part := range splitOutside(dictionary, ',') {
		if label, value, ok := strings.Cut(strings.TrimSpace(part), "="); ok && label == name {
			return value, true
		}
	}
	return "", false
}

// splitOutside splits at a separator, but not within quotes.
func splitOutside(text string, separator byte) []string {
	var parts []string
	quoted, start := false, 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// base is what was signed.
func (d *Delivery) base(input *signatureInput) ([]byte, error) {
	target, err := url.Parse(d.URL)
	if err != nil {
		return nil, reason(ErrBadSignature, "the URL %q cannot be read", d.URL)
	}
	var base strings.Builder
	for _, component := range input.components {
		var value string
		switch component {
		case "@method":
			value = d.Method
		case "@target-uri":
			value = d.URL
		case "@authority":
			value = strings.ToLower(target.Host)
		case "@scheme":
			value = target.Scheme
		case "@path":
			value = target.EscapedPath()
		case "@query":
			value = "?" + target.RawQuery
		default:
			values := d.Header.Values(component)
			if len(values) == 0 || strings.HasPrefix(component, "@") {
				return nil, reason(ErrBadSignature, "%s is signed and not there", component)
			}
			for i := range values {
				values[i] = strings.TrimSpace(values[i])
			}
			value = strings.Join(values, ", ")
		}
		fmt.Fprintf(&base, "%q: %s\n", component, value)
	}
	fmt.Fprintf(&base, "%q: %s", "@signature-params", input.text)
	return []byte(base.String()), nil
}
