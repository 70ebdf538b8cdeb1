package forgerun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
)

const resumesMax = 5 // breaks without a further byte before the trouble is reported

// Download is a result as a stream. A connection that breaks is opened again, and reading goes on where it ended, with the same
// content or not at all.
type Download struct {
	ContentType string
	FileName    string // "" if the server gives it none
	Size        int64  // -1 if the server does not say

	ctx    context.Context
	client *Client
	path   string
	etag   string
	body   io.ReadCloser
	at     int64
	breaks int
}

// Open begins to read what a job left. The job must have succeeded; ctx bounds the whole download.
func (h *Handle) Open(ctx context.Context) (*Download, error) {
	return h.client.download(ctx, h.path("/result"))
}

func (c *Client) download(ctx context.Context, route string) (*Download, error) {
	d := &Download{ctx: ctx, client: c, path: route}
	answer, err := d.request()
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, protocolError("a result was expected, not status %d", answer.StatusCode)
	}
	d.body, d.Size = answer.Body, answer.ContentLength
	d.ContentType = answer.Header.Get("Content-Type")
	if _, parameters, err := mime.ParseMediaType(answer.Header.Get("Content-Disposition")); err == nil {
		d.FileName = fileName(parameters["filename"])
	}
	if etag := answer.Header.Get("Etag"); strings.HasPrefix(etag, `"`) {
		d.etag = etag
	}
	return d, nil
}

// fileName leaves out any folder: a server must not choose it.
func fileName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	if name == "." || name == ".." || name == "/" {
		return ""
	}
	return name
}

func (d *Download) request() (*http.Response, error) {
	request := get(d.path).set("Accept", "*/*")
	if d.at > 0 {
		request.set("Range", fmt.Sprintf("bytes=%d-", d.at)).set("If-Range", d.etag)
	}
	return d.client.send(d.ctx, request)
}

// Read reads the next bytes.
func (d *Download) Read(into []byte) (int, error) {
	for {
		if d.Size >= 0 && d.at >= d.Size {
			return 0, io.EOF
		}
		if d.body == nil {
			if err := d.resume(); err != nil {
				return 0, err
			}
		}
		n, err := d.body.Read(into)
		d.at += int64(n)
		if n > 0 {
			d.breaks = 0
			return n, nil // an error comes again with the next read
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && d.Size < 0:
			return 0, io.EOF
		}
		d.Close()
		d.breaks++
		if d.breaks > resumesMax || d.etag == "" || d.ctx.Err() != nil {
			return 0, d.client.broken(d.ctx, err)
		}
		wait, _ := DefaultRetryPolicy.next(&APIError{Retryable: true}, true, d.breaks-1, d.client.random())
		if err := d.client.sleep(d.ctx, wait); err != nil {
			return 0, err
		}
	}
}

func (d *Download) resume() error {
	answer, err := d.request()
	if err != nil {
		return err
	}
	here := answer.StatusCode == http.StatusPartialContent &&
		strings.HasPrefix(answer.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.at))
	if !here && d.at > 0 {
		answer.Body.Close()
		return protocolError("the result is not the same as before; begin again")
	}
	d.body = answer.Body
	return nil
}

// Close ends the download.
func (d *Download) Close() error {
	if d.body == nil {
		return nil
	}
	body := d.body
	d.body = nil
	return body.Close()
}

// bytes reads the whole.
func (d *Download) bytes(bytesMax int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(d, bytesMax+1))
	if err == nil && int64(len(body)) > bytesMax {
		return nil, usageError("the result has more than %d bytes: read it with Open", bytesMax)
	}
	return body, err
}
