/** Results that the server names by an address, `{"$ref": URL}`, because they are too large to come with a job, or are no JSON. */

import { isObject } from "../errors.js";
import { RESULT_BYTES_MAX } from "../limits.js";
import { ResultStream } from "../result.js";
import { parse, segment, type Transport } from "../transport.js";

/** References within references that are followed: as deep as workflows are nested, and some more. */
const DEPTH_MAX = 12;

// Only the ids of an address count: the key goes to the client's own server alone.
const OF_JOB = /\/ojs\/v1\/jobs\/([^/]+)\/result$/;
const OF_WORKFLOW = /\/v1\/workflows\/([^/]+)\/results$/;

interface Page {
  type: string;
  results: { id: string; result?: unknown }[];
  next_cursor: string | null;
}

/** The value, or what it refers to. */
export async function whole(transport: Transport, value: unknown, signal: AbortSignal, depth = 0): Promise<unknown> {
  if (!isObject(value) || depth >= DEPTH_MAX) return value;
  const url = value["$ref"];
  if (typeof url !== "string" || Object.keys(value).length !== 1) return value;
  const job = OF_JOB.exec(url)?.[1];
  if (job !== undefined) return ofJob(transport, job, signal);
  const workflow = OF_WORKFLOW.exec(url)?.[1];
  return workflow === undefined ? value : ofWorkflow(transport, workflow, signal, depth);
}

async function ofJob(transport: Transport, id: string, signal: AbortSignal): Promise<unknown> {
  const stream = await ResultStream.open(transport, `ojs/v1/jobs/${segment(id)}/result`, signal);
  const bytes = await stream.bytes(RESULT_BYTES_MAX);
  const isJson = /^application\/(.+\+)?json\b/i.test(stream.contentType);
  return isJson ? parse(new TextDecoder().decode(bytes)) : bytes;
}

/** The results of the elements of a list, or of the steps of a workflow by their ids. */
async function ofWorkflow(transport: Transport, id: string, signal: AbortSignal, depth: number): Promise<unknown> {
  const found: [string, unknown][] = [];
  for (let cursor: string | undefined; ; ) {
    const page: Page = await transport.json({
      method: "GET",
      path: `v1/workflows/${segment(id)}/results`,
      query: { limit: 100, cursor },
      repeat: "harmless",
      signal,
    });
    for (const { id, result } of page.results) found.push([id, (await whole(transport, result, signal, depth + 1)) ?? null]);
    if (!page.next_cursor) return page.type === "for_each" ? found.map(([, result]) => result) : Object.fromEntries(found);
    cursor = page.next_cursor;
  }
}
