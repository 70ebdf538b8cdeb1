/** What the handlers for frameworks share: jobs that `forgerun worker http` posts, and deliveries of webhooks. */

import type { JobContext } from "../worker/context.js";
import { failureOf, Fatal, RetryLater } from "../worker/failure.js";
import { verify, WebhookError, type Delivery, type HeadersLike, type JwkSet, type KeyLookup } from "../webhooks.js";

/** A request whose body was read, byte for byte. */
export interface RawRequest {
  method: string;
  headers: HeadersLike;
  body: Uint8Array;
  signal: AbortSignal;
}

/** An answer to it. */
export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** What a job handler behind a URL is called with. What reports, records or waits needs a worker of its own. */
export type HttpJobContext = Omit<JobContext, "addSteps" | "log" | "progress" | "sleep" | "step" | "waitFor">;

export type HttpJobHandler<I = any, O = unknown> = (context: HttpJobContext, input: I) => O | Promise<O>;

export interface JobHandlerOptions {
  /** The secret that `forgerun worker http --secret` signs with. Without it any caller may start work: keep the URL private. */
  secret?: string | undefined;
  /** Whether the worker runs with `--envelope`, which brings the results of the steps before: `parents`. */
  envelope?: boolean | undefined;
}

export interface WebhookHandlerOptions {
  /** The secret of the webhook; or the keys of the server, with `url`. */
  secret?: string | undefined;
  keys?: JwkSet | KeyLookup | undefined;
  /** For `keys`: the URL of the webhook as it was registered. */
  url?: string | undefined;
}

export type DeliveryHandler = (delivery: Delivery) => unknown;

/** Does the job of a request. A failure is answered with a problem object, which says whether to try again. */
export async function answerJob(request: RawRequest, handler: HttpJobHandler, options: JobHandlerOptions): Promise<RawAnswer> {
  try {
    if (request.method !== "POST") return problem(405, "Method Not Allowed", "jobs come as POST");
    if (options.secret !== undefined) await verify(request.body, request.headers, options.secret);
    const text = new TextDecoder().decode(request.body);
    const received: unknown = text === "" ? null : JSON.parse(text);
    const { input, parents } = options.envelope ? (received as Envelope) : { input: received, parents: {} };
    const output = await handler(contextOf(request, parents), input);
    if (output === undefined) return { status: 204, headers: {}, body: "" };
    return { status: 200, headers: { "content-type": "application/json" }, body: JSON.stringify(output) };
  } catch (thrown) {
    if (thrown instanceof WebhookError) return problem(401, "Unauthorized", thrown.message);
    const { message } = failureOf(thrown);
    if (thrown instanceof RetryLater) {
      // Seconds are all that HTTP has.
      return problem(503, "Try Again Later", message, { retryable: true, retryAfter: Math.ceil(thrown.delayMs / 1000) });
    }
    return problem(500, "Job Failed", message, { retryable: !(thrown instanceof Fatal) });
  }
}

/** Verifies a delivery and hands it on. */
export async function answerDelivery(
  request: RawRequest,
  handler: DeliveryHandler,
  options: WebhookHandlerOptions,
): Promise<RawAnswer> {
  const means = options.secret ?? options.keys;
  if (means === undefined) throw new TypeError("a webhook handler needs `secret` or `keys`");
  try {
    const delivery = await verify(request.body, request.headers, means, { url: options.url, method: request.method });
    await handler(delivery);
    return { status: 204, headers: {}, body: "" };
  } catch (thrown) {
    if (thrown instanceof WebhookError) return problem(401, "Unauthorized", thrown.message);
    // What went wrong is not the sender's business; it tries again.
    console.error(thrown);
    return problem(500, "Internal Server Error", "the delivery could not be handled");
  }
}

interface Envelope {
  input: unknown;
  parents: Record<string, unknown>;
}

function contextOf(request: RawRequest, parents: Record<string, unknown>): HttpJobContext {
  const get = (name: string) => {
    const { headers } = request;
    const value = typeof headers.get === "function" ? (headers as Headers).get(name) : (headers as Record<string, string>)[name];
    return value ?? undefined;
  };
  return {
    job: {
      id: get("forgerun-job-id") ?? "",
      type: get("forgerun-job-type") ?? "",
      queue: get("forgerun-queue") ?? "",
      attempt: Number(get("forgerun-attempt") ?? 1),
      tags: [],
      meta: {},
      traceparent: get("traceparent"),
    },
    signal: request.signal,
    get cancelled() {
      return request.signal.aborted;
    },
    parents,
  };
}

function problem(status: number, title: string, detail: string, members: Record<string, unknown> = {}): RawAnswer {
  const body = JSON.stringify({ type: "about:blank", title, status, detail, ...members });
  return { status, headers: { "content-type": "application/problem+json" }, body };
}
