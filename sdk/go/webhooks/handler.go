package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

const bodyBytesMax = 4 << 20 // of a delivery

// Event is a verified delivery.
type Event struct {
	ID   string          // of the delivery: the same at every attempt, so that repetitions can be recognised
	Name string          // such as job_failed
	Type string          // the media type: application/problem+json for failures
	Data json.RawMessage // the body
}

// Handler returns an http.Handler that verifies deliveries and hands them to do. An error of do is answered with 500, and the server
// tries again; a signature that does not hold is answered with 401. url is the registered URL; only Keys needs it.
//
// Answer quickly: put the event into a queue of yours and return.
func Handler(by Verifier, url string, do func(context.Context, Event) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		case err != nil:
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		if err := Verify(Delivery{Body: body, Header: r.Header, Method: r.Method, URL: url}, by); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		event := Event{
			ID: r.Header.Get("Webhook-Id"), Name: r.Header.Get("X-Forgerun-Event"), Type: r.Header.Get("Content-Type"), Data: body,
		}
		if err := do(r.Context(), event); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
