/** Requests over `fetch`: credentials, timeouts, errors, repetition. Works in Node and in browsers. */

import { systemClock, type Clock } from "./clock.js";
import { errorOfAnswer, ForgeRunError, UnreachableError } from "./errors.js";
import { ANSWER_BYTES_MAX, ERROR_BYTES_MAX, REQUEST_TIMEOUT_MS, STALL_TIMEOUT_MS } from "./limits.js";
import { nextRetry, RETRY_POLICY, type Repeat, type RetryPolicy } from "./retry.js";

/** What a client is made with. */
export interface ClientOptions {
  /** Where the server is: `FORGERUN_URL`, or `http://127.0.0.1:8080`. A path in it is kept. */
  url?: string | undefined;
  /** The key or job token that is sent: `FORGERUN_API_KEY`, or none. */
  key?: string | undefined;
  /** How long an answer may take to begin: 40 s. */
  timeoutMs?: number | undefined;
  /** How often and how patiently a request is repeated. */
  retry?: Partial<RetryPolicy> | undefined;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch | undefined;
  /** Used instead of the time of the machine; for tests. */
  clock?: Clock | undefined;
}

/** A body that is no JSON. */
export type RequestBody = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

/** One request. */
export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the server's address, without a slash at the front. */
  path: string;
  query?: Record<string, string | number | readonly string[] | undefined>;
  headers?: Record<string, string | undefined>;
  /** Sent as JSON. */
  json?: unknown;
  /** The same as text that is JSON already. */
  jsonText?: string;
  /** Sent as it is; a function makes a new body for each try. */
  body?: () => RequestBody;
  repeat?: Repeat;
  /** How much longer than usual the answer may take to begin. */
  holdMs?: number;
  signal?: AbortSignal | undefined;
}

/** An answer whose body is still to be read. It must be read, or closed. */
export class Answer {
  constructor(
    readonly status: number,
    readonly headers: Headers,
    private readonly body: ReadableStream<Uint8Array> | null,
    private readonly watch: Watch,
  ) {}

  /** The body in pieces. Throws `UnreachableError` if it breaks off or stands still. */
  async *chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    if (!this.body) return this.watch.end();
    const reader = this.body.getReader();
    try {
      for (;;) {
        this.watch.restart(STALL_TIMEOUT_MS);
        const { done, value } = await reader.read().catch((error: unknown) => this.watch.fail(error, true));
        if (done) return;
        yield value;
      }
    } finally {
      this.watch.end();
      // Also where the reader was left early: the connection is of no use then.
      await reader.cancel().catch(() => undefined);
    }
  }

  /** The whole body. Throws if it has more than `max` bytes. */
  async bytes(max: number): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    let size = 0;
    for await (const piece of this.chunks()) {
      size += piece.length;
      if (size > max) throw new RangeError(`the answer has more than ${max} bytes`);
      pieces.push(piece);
    }
    if (pieces.length === 1) return pieces[0]!;
    const whole = new Uint8Array(size);
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  }

  async text(max = ANSWER_BYTES_MAX): Promise<string> {
    return new TextDecoder().decode(await this.bytes(max));
  }

  /** Drops what is left of the body. */
  close(): void {
    this.watch.end();
    this.body?.cancel().catch(() => undefined);
  }
}

/** Ends a request that takes too long, or that the caller gives up. */
class Watch {
  readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private timedOut = false;
  private readonly onAbort = () => this.controller.abort(this.signal?.reason);

  constructor(
    private readonly host: string,
    private readonly signal: AbortSignal | undefined,
  ) {
    if (signal?.aborted) this.onAbort();
    else signal?.addEventListener("abort", this.onAbort);
  }

  restart(ms: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timedOut = true;
      this.controller.abort();
    }, ms);
  }

  end(): void {
    clearTimeout(this.timer);
    this.signal?.removeEventListener("abort", this.onAbort);
  }

  fail(error: unknown, answered: boolean): never {
    this.end();
    if (this.signal?.aborted) throw this.signal.reason;
    const cause = (error as { cause?: { code?: string; message?: string } }).cause;
    const reason = this.timedOut
      ? "no answer in time"
      : (cause?.message || cause?.code || (error as Error).message || "the connection broke");
    throw new UnreachableError(this.host, reason, answered || !NEVER_SENT.has(cause?.code ?? ""), error);
  }
}

/** Failures before a request has left. */
const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

/** Sends requests to one server. */
export class Transport {
  readonly clock: Clock;
  private readonly base: URL;
  private readonly authorization: string | undefined;
  private readonly timeoutMs: number;
  private readonly policy: RetryPolicy;
  private readonly fetch: typeof fetch;

  constructor(options: ClientOptions) {
    const env = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
    const url = options.url ?? env["FORGERUN_URL"] ?? "http://127.0.0.1:8080";
    const key = options.key ?? env["FORGERUN_API_KEY"];
    this.base = baseOf(url);
    this.authorization = key ? `Bearer ${key}` : undefined;
    this.timeoutMs = options.timeoutMs ?? REQUEST_TIMEOUT_MS;
    this.policy = { ...RETRY_POLICY, ...options.retry };
    this.fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.clock = options.clock ?? systemClock;
  }

  /** The address of the server. */
  get url(): string {
    return this.base.href.replace(/\/$/, "");
  }

  /** Sends a request, again if that makes sense. Throws for every status but 2xx and 304. */
  async send(call: Call): Promise<Answer> {
    for (let retries = 0; ; retries++) {
      try {
        return await this.sendOnce(call);
      } catch (error) {
        const wait = nextRetry(this.policy, error, call.repeat ?? "only_if_not_sent", retries, this.clock.random());
        if (wait === undefined) throw error;
        await this.clock.sleep(wait, call.signal);
      }
    }
  }

  /** The JSON of the answer; `undefined` if it has no body. */
  async json<T>(call: Call): Promise<T> {
    return parse<T>(await (await this.send(call)).text());
  }

  /** Sends a request once. */
  async sendOnce(call: Call): Promise<Answer> {
    const watch = new Watch(this.base.host, call.signal);
    watch.restart(this.timeoutMs + (call.holdMs ?? 0));
    const text = call.jsonText ?? (call.json === undefined ? undefined : JSON.stringify(call.json));
    const body = text ?? call.body?.();
    const init: RequestInit & { duplex?: "half" } = {
      method: call.method,
      headers: this.headers(call, text !== undefined),
      signal: watch.controller.signal,
      // A link that leads elsewhere must not get the key.
      redirect: "error",
    };
    if (body !== undefined) init.body = body as BodyInit;
    if (body instanceof ReadableStream) init.duplex = "half";
    const response = await this.fetch(this.address(call), init).catch((error: unknown) => watch.fail(error, false));
    const answer = new Answer(response.status, response.headers, response.body, watch);
    if (response.ok || response.status === 304) return answer;
    const reason = await answer.text(ERROR_BYTES_MAX).catch(() => "");
    throw errorOfAnswer(response.status, response.headers, reason, this.clock.now());
  }

  private address(call: Call): URL {
    const url = new URL(call.path, this.base);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== undefined) url.searchParams.append(name, String(each));
      }
    }
    return url;
  }

  private headers(call: Call, isJson: boolean): Headers {
    const headers = new Headers({ accept: "application/json" });
    if (this.authorization) headers.set("authorization", this.authorization);
    if (isJson) headers.set("content-type", "application/json");
    for (const [name, value] of Object.entries(call.headers ?? {})) {
      if (value !== undefined) headers.set(name, value);
    }
    return headers;
  }
}

/** Reads an answer that should be JSON. */
export function parse<T>(text: string): T {
  if (text === "") return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    const message = `could not understand the server: ${JSON.stringify(text.slice(0, 80))} is no JSON`;
    throw new ForgeRunError({ code: "PROTOCOL", message }, { cause });
  }
}

function baseOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new TypeError(`${JSON.stringify(text)} is no address of a server; write http://HOST:PORT`);
  }
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  return url;
}

/** A piece of a path. */
export function segment(text: string): string {
  if (text === "" || text === "." || text === "..") throw new TypeError(`${JSON.stringify(text)} cannot be in an address`);
  return encodeURIComponent(text);
}
