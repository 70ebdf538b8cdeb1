package forgerun

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
)

// referencesDepth is how many references within references are followed: as deep as workflows are nested, and some more.
const referencesDepth = 12

// Only the ids of an address count: the key goes to the client's own server alone.
var (
	jobResult       = regexp.MustCompile(`/ojs/v1/jobs/([^/]+)/result$`)
	workflowResults = regexp.MustCompile(`/v1/workflows/([^/]+)/results$`)
)

// reference returns the address that a result consists of, {"$ref": URL}; "" for any other result.
func reference(value json.RawMessage) string {
	var members map[string]json.RawMessage
	var address string
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &members) != nil || len(members) != 1 {
		return ""
	}
	if json.Unmarshal(members["$ref"], &address) != nil {
		return ""
	}
	return address
}

// whole returns a result, or what it refers to, and its media type.
func (c *Client) whole(ctx context.Context, value json.RawMessage, depth int) ([]byte, string, error) {
	address := reference(value)
	if job := jobResult.FindStringSubmatch(address); job != nil && depth < referencesDepth {
		download, err := c.download(ctx, "/ojs/v1/jobs/"+segment(job[1])+"/result")
		if err != nil {
			return nil, "", err
		}
		defer download.Close()
		body, err := download.bytes(resultsBytesMax)
		return body, download.ContentType, err
	}
	if workflow := workflowResults.FindStringSubmatch(address); workflow != nil && depth < referencesDepth {
		body, err := c.workflowResults(ctx, workflow[1], depth)
		return body, "application/json", err
	}
	return value, "application/json", nil
}

// workflowResults returns the results of the elements of a list, or of the steps of a workflow by their ids, as JSON.
func (c *Client) workflowResults(ctx context.Context, id string, depth int) ([]byte, error) {
	list, byID := []json.RawMessage{}, map[string]json.RawMessage{}
	query := url.Values{"limit": {"100"}}
	for {
		var page struct {
			Type    string `json:"type"`
			Results []struct {
				ID     string          `json:"id"`
				Result json.RawMessage `json:"result"`
			} `json:"results"`
			NextCursor string `json:"next_cursor"`
		}
		if err := c.fetch(ctx, get("/v1/workflows/"+segment(id)+"/results?"+query.Encode()), &page); err != nil {
			return nil, err
		}
		for _, entry := range page.Results {
			body, media, err := c.whole(ctx, entry.Result, depth+1)
			if err != nil {
				return nil, err
			}
			if !isJSON(media) || len(body) == 0 {
				body = entry.Result // bytes of another type stay a reference
			}
			list, byID[entry.ID] = append(list, body), body
		}
		if page.NextCursor == "" {
			if page.Type == "for_each" {
				return json.Marshal(list)
			}
			return json.Marshal(byID)
		}
		query.Set("cursor", page.NextCursor)
	}
}
